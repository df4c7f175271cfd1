"""Confines the process of the playground before it runs a script."""

import os
import resource
from pathlib import Path
from typing import Final

from app.interpret.playground.question import Language
from app.interpret.playground.system_call_filter import FilterError, build_filter, find_architecture, install_filter

MAX_MEMORY_BYTES: Final = 192 << 20
"""Address space in addition to that of the interpreter: six times the memory of a Lua script."""
MAX_CPU_SECONDS: Final = 5
"""CPU time in addition to that of the start. A Lua script ends after a second."""


def confine(language: Language) -> None:
    """Limit memory and CPU time of this process, and allow it only to compute.

    Raises:
        FilterError: The kernel does not filter system calls, and the language is not confined by itself. Lua is: its
            scripts reach no function of the host, so rlimits are enough.
    """
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    seconds = int(used) + 1 + MAX_CPU_SECONDS
    memory = _read_address_space() + MAX_MEMORY_BYTES
    for limit, value in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),  # pipes have no size
    ):
        resource.setrlimit(limit, (value, value))
    try:
        install_filter(build_filter(find_architecture()))
    except FilterError:
        if language == "python":
            raise
        # From now on, no file, socket or pipe can be opened.
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def _read_address_space() -> int:
    """Return the bytes of the address space of this process (proc_pid_statm(5))."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")
