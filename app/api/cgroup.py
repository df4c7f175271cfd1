"""The memory limit of this process: of its control groups (v2 or v1), or else of the machine."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Version 1 expresses "no limit" by the largest multiple of the page size; no machine has an exbibyte.
_NO_LIMIT = 1 << 60


def find_memory_limit(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: the lowest limit of its control groups and the machine.

    Args:
        root: Directory that holds ``proc`` and ``sys``.
    """
    found = (_read_limit(file) for file in _limit_files(root))
    return min([_physical_memory(), *(limit for limit in found if limit is not None)])


def _limit_files(root: Path) -> Iterator[Path]:
    """Yield the limit files of this process's group and of its parents, whose limits apply, too.

    In a container, the path of the group is often a path of the host, which the container does not see. Directories
    that do not exist are skipped; the mount's own directory is the container's group in this case.
    """
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            directory, name = mount, "memory.max"
        elif "memory" in controllers.split(","):
            directory, name = mount / "memory", "memory.limit_in_bytes"
        else:
            continue
        relative = PurePosixPath(path.lstrip("/"))
        for group in (relative, *relative.parents):
            yield directory / group / name


def _read_limit(file: Path) -> int | None:
    """Return the limit in a file, None without a file or a limit (``max``)."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return None
    return limit if limit < _NO_LIMIT else None


def _physical_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
