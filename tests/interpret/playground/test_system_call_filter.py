import subprocess
import sys

import pytest

from app.interpret.playground.system_call_filter import (
    ARCHITECTURES,
    FilterError,
    Instruction,
    build_filter,
    find_architecture,
)

ALLOWED, KILLED, EPERM = 0x7FFF0000, 0x80000000, 0x00050001
# Numbers by name, from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
DANGEROUS = {
    "x86_64": {
        "open": 2, "socket": 41, "connect": 42, "sendto": 44, "clone": 56, "fork": 57, "vfork": 58, "execve": 59,
        "kill": 62, "ptrace": 101, "prctl": 157, "setrlimit": 160, "tkill": 200, "tgkill": 234, "openat": 257,
        "prlimit64": 302, "process_vm_readv": 310, "seccomp": 317, "bpf": 321, "execveat": 322, "io_uring_setup": 425,
        "pidfd_open": 434, "clone3": 435, "openat2": 437,
    },
    "aarch64": {
        "openat": 56, "kill": 129, "tkill": 130, "tgkill": 131, "prctl": 167, "setrlimit": 164, "socket": 198,
        "connect": 203, "sendto": 206, "clone": 220, "execve": 221, "prlimit64": 261, "process_vm_readv": 270,
        "seccomp": 277, "bpf": 280, "execveat": 281, "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435,
        "openat2": 437, "ptrace": 117,
    },
}  # fmt: skip


def run_filter(program: list[Instruction], *, architecture: int, number: int) -> int:
    """Run a filter as the kernel does, and return its verdict."""
    word, position = 0, 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x20:
            word = {0: number, 4: architecture}[value]
        elif code == 0x15:
            position += if_true if word == value else if_false
        else:
            assert code == 0x06
            return value


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_the_filter_allows_exactly_the_listed_calls(name: str) -> None:
    architecture = ARCHITECTURES[name]
    program = build_filter(architecture)
    allowed = {
        number
        for number in range(1024)
        if run_filter(program, architecture=architecture.identifier, number=number) == ALLOWED
    }
    assert allowed == set(architecture.calls.values())
    for call, number in DANGEROUS[name].items():
        verdict = run_filter(program, architecture=architecture.identifier, number=number)
        assert verdict == EPERM, call


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_calls_in_the_convention_of_another_architecture_end_the_process(name: str) -> None:
    program = build_filter(ARCHITECTURES[name])
    assert run_filter(program, architecture=0x40000003, number=1) == KILLED  # 32-bit x86
    # The x32 convention marks its numbers, so that none equals an allowed one.
    assert run_filter(program, architecture=ARCHITECTURES[name].identifier, number=0x40000001) == EPERM


def test_an_unknown_machine_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    with pytest.raises(FilterError, match="no system call filter for Linux on pdp11"):
        find_architecture()


def test_a_process_with_threads_is_not_filtered() -> None:
    code = (
        "import threading, time\n"
        "from app.interpret.playground.system_call_filter import *\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "try: install_filter(build_filter(find_architecture()))\n"
        "except FilterError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the process has 2 threads, expected one\n"
