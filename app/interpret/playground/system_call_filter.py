"""A seccomp filter for a process that only computes: the kernel refuses all other system calls.

The process can read and write the files that are open, allocate memory, read clocks and exit. It cannot open files or
sockets, start processes or threads, send signals, or remove the filter. A refused call fails with EPERM.

Sources: Linux seccomp(2) and Documentation/userspace-api/seccomp_filter.rst; arch/x86/entry/syscalls/syscall_64.tbl;
include/uapi/asm-generic/unistd.h.
"""

import ctypes
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_FILTER_MODE: Final = 2

# Instructions of classic BPF: load a word of struct seccomp_data, compare, return.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_NUMBER_OFFSET: Final = 0
_ARCHITECTURE_OFFSET: Final = 4
_ALLOW: Final = 0x7FFF0000
_KILL_PROCESS: Final = 0x80000000
_FAIL: Final = 0x00050000
_EPERM: Final = 1


class Architecture(NamedTuple):
    """A machine's identifier in filters, and the numbers of the allowed system calls."""

    identifier: int
    calls: Mapping[str, int]


ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "x86_64": Architecture(
        0xC000003E,
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
            "brk": 12, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25, "madvise": 28, "exit": 60,
            "gettimeofday": 96, "getrusage": 98, "time": 201, "futex": 202, "clock_gettime": 228, "exit_group": 231,
            "getrandom": 318,
        },
    ),
    "aarch64": Architecture(
        0xC00000B7,
        {
            "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98,
            "clock_gettime": 113, "sched_yield": 124, "rt_sigreturn": 139, "getrusage": 165, "gettimeofday": 169,
            "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278,
        },
    ),
}  # fmt: skip


class Instruction(NamedTuple):
    """One instruction of classic BPF: ``struct sock_filter``."""

    code: int
    if_true: int
    if_false: int
    value: int


class FilterError(OSError):
    """The kernel or the machine does not support the filter; the text states the reason."""


def build_filter(architecture: Architecture) -> list[Instruction]:
    """Return the program of the filter: it allows the calls of an architecture, and refuses all others."""
    numbers = sorted(architecture.calls.values())
    checks = [
        # The distance to the last instruction, which allows the call.
        Instruction(_JUMP_IF_EQUAL, len(numbers) - position, 0, number)
        for position, number in enumerate(numbers)
    ]
    return [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        Instruction(_JUMP_IF_EQUAL, 1, 0, architecture.identifier),
        # A call in the convention of another architecture has other numbers.
        Instruction(_RETURN, 0, 0, _KILL_PROCESS),
        Instruction(_LOAD, 0, 0, _NUMBER_OFFSET),
        *checks,
        Instruction(_RETURN, 0, 0, _FAIL | _EPERM),
        Instruction(_RETURN, 0, 0, _ALLOW),
    ]


class _SockFilter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32),
    )  # fmt: skip


class _SockProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_SockFilter)))


def find_architecture() -> Architecture:
    """Return the architecture of this machine; raises FilterError if the filter does not know it."""
    if platform.system() != "Linux" or (found := ARCHITECTURES.get(platform.machine())) is None:
        raise FilterError(f"no system call filter for {platform.system()} on {platform.machine()}")
    return found


def install_filter(program: Sequence[Instruction]) -> None:
    """Filter the system calls of this process from now on; raises FilterError if the kernel refuses."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:  # the filter is for the calling thread
        raise FilterError(f"the process has {threads} threads, expected one")
    filters = (_SockFilter * len(program))(*(_SockFilter(*one) for one in program))
    sock_program = _SockProgram(len(program), filters)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    arguments = ((_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(sock_program)))
    for option, first, second in arguments:
        if prctl(option, ctypes.c_ulong(first), second, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise FilterError(f"the kernel refuses the system call filter: {os.strerror(ctypes.get_errno())}")
