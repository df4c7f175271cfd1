"""The limits of connections and bodies, derived from the memory that the server may use.

    per worker process = memory limit / workers
    max_connections    = per process / 4 / 1 MiB, at least 64, at most 16384 and the open files less 256
    body_memory        = per process / 4, at least twice body_limit

The other half is for the objects, their compiled plans (keep ``plan_cache_bytes`` below it) and the program. With the
chart's limit of 1 GiB: 256 connections and 256 MiB.
"""

import resource
from typing import Final, NamedTuple

from app.api.cgroup import find_memory_limit
from app.settings import Settings

CONNECTION_BYTES: Final = 1024 * 1024
"""About the most memory that a hostile client can make a connection hold. Measured with 100 connections: 58 KiB if
silent, 173 KiB with unread answers, 612 KiB with a body that the server stops reading, 930 to 1,210 KiB with both."""

_SHARE: Final = 4
_MIN_CONNECTIONS: Final = 64
_MAX_CONNECTIONS: Final = 16384
# Files that are not connections of clients: manifests, watches, webhooks' connections, libraries.
_OTHER_FILES: Final = 256


class Capacity(NamedTuple):
    """Limits of one server process."""

    connections: int
    """Maximum number of open connections."""
    body_bytes: int
    """Maximum number of bytes of bodies and of the objects decoded from them."""


def derive_capacity(settings: Settings, *, memory: int, open_files: int) -> Capacity:
    """Return the limits of one worker process; settings override the formula.

    Args:
        settings: The settings; `max_connections` and `body_memory` apply to one process, too.
        memory: Bytes that all worker processes may use together.
        open_files: File descriptors that one process may have.
    """
    share = memory // settings.workers // _SHARE
    most = max(1, min(_MAX_CONNECTIONS, open_files - _OTHER_FILES))
    connections = min(most, max(_MIN_CONNECTIONS, share // CONNECTION_BYTES))
    bodies = max(share, 2 * settings.body_limit)
    return Capacity(settings.max_connections or connections, settings.body_memory or bodies)


def find_capacity(settings: Settings) -> Capacity:
    """Return the limits of this process."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if open_files == resource.RLIM_INFINITY:
        open_files = _MAX_CONNECTIONS + _OTHER_FILES
    return derive_capacity(settings, memory=find_memory_limit(), open_files=open_files)
