"""Looking up names of webhooks, shared fairly between their owners.

The system's resolver blocks a thread for as long as a name server likes, and the name server is the owner's choice. In
the threads that the whole process shares, a few slow names would hold up everybody.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from app.outbound.call_slots import CallSlots, FullError, Quotas
from app.outbound.daemon_thread import call_in_daemon_thread

# A lookup takes milliseconds, and its result is kept for ten seconds by each session. Each has a thread; an owner
# without a lookup gets one beyond the quota, up to twice as many (`app.outbound.call_slots`).
_QUOTAS: Final = Quotas(connections=4, calls=4, total=16)
# As long as a webhook may take at most.
_WAIT_SECONDS: Final = 30.0

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]
GetAddresses = Callable[..., Sequence[Address]]


class SharedResolver:
    """Looks names up in threads of its own."""

    def __init__(self, get_addresses: GetAddresses = socket.getaddrinfo) -> None:
        """Prepare; ``get_addresses`` is called in threads."""
        self._get_addresses: Final = get_addresses
        self._slots: Final = CallSlots(_QUOTAS)
        self._under_way: Final[set[asyncio.Task[list[ResolveResult]]]] = set()

    def for_owner(self, owner: str) -> AbstractResolver:
        """Return what looks up the names that an owner chose."""
        return _Resolver(self, owner)

    async def resolve(self, owner: str, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            OSError: There are none, or (ENOBUFS) too many names of this owner are being looked up.
        """
        # A thread cannot be cancelled: the slot is held until the lookup ends, whether or not somebody still waits.
        task = asyncio.create_task(self._resolve(owner, host, port, family))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[list[ResolveResult]]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # Nobody may wait any more, and then an error is nobody's.
            task.exception()

    async def _resolve(self, owner: str, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        try:
            async with self._slots.hold(owner, "", seconds=_WAIT_SECONDS):
                look_up = partial(self._look_up, host, port, family)
                return await asyncio.wrap_future(call_in_daemon_thread(look_up, name="lookup"))
        except FullError:
            raise OSError(errno.ENOBUFS, f"too many names of logical cluster {owner!r} are being looked up") from None

    def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        found = self._get_addresses(host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG)
        return [_result(host, address) for address in found]


class _Resolver(AbstractResolver):
    def __init__(self, lookups: SharedResolver, owner: str) -> None:
        self._resolvers: Final = lookups
        self._owner: Final = owner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return await self._resolvers.resolve(self._owner, host, port, family)

    async def close(self) -> None:
        """Leave the threads to others."""


def _result(host: str, address: Address) -> ResolveResult:
    family, _, protocol, _, where = address
    # With the zone of a link-local address, which the numbers alone do not have.
    number, port = socket.getnameinfo(where, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return ResolveResult(
        hostname=host, host=number, port=int(port), family=family, proto=protocol,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )  # fmt: skip
