"""Resolve the host names of webhooks, shared fairly between their owners.

The system's resolver blocks a thread until the name server responds, and the owner of a webhook chooses the name
server. In the thread pool of the process, a few slow names would delay all other work.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from fleethook.model.formats.fixed_addresses import NO_FIXED_ADDRESSES, FixedAddresses
from fleethook.outbound.call_limits import CallSlots, FullError, Quotas
from fleethook.work.worker import call_in_daemon_thread

# A lookup takes milliseconds, and each session caches the result for ten seconds. Each lookup has its own thread. An
# owner without a lookup gets one beyond the quota, up to twice the total (`fleethook.outbound.call_limits`).
_QUOTAS: Final = Quotas(connections=4, calls=4, total=16)
# The maximum timeoutSeconds of a webhook.
_WAIT_SECONDS: Final = 30.0

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]
GetAddresses = Callable[..., Sequence[Address]]


class SharedResolver:
    """Resolves names in its own threads."""

    def __init__(
        self, get_addresses: GetAddresses = socket.getaddrinfo, *, fixed: FixedAddresses = NO_FIXED_ADDRESSES
    ) -> None:
        """Prepare; ``get_addresses`` is called in threads, for names that ``fixed`` does not have."""
        self._get_addresses: Final = get_addresses
        self._fixed: Final = fixed
        self._slots: Final = CallSlots(_QUOTAS)
        self._under_way: Final[set[asyncio.Task[list[ResolveResult]]]] = set()

    def for_owner(self, owner: str) -> AbstractResolver:
        """Return the resolver for the names of one owner."""
        return _Resolver(self, owner)

    async def resolve(self, owner: str, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            OSError: The name has no address, or (ENOBUFS) too many lookups of this owner are in flight.
        """
        fixed = self._fixed.get((host.lower(), port))
        if fixed is not None:
            return [_make_result(host, *fixed)]
        # A thread cannot be cancelled, so the lookup holds its slot until it ends, even if the caller was cancelled.
        task = asyncio.create_task(self._resolve(owner, host, port, family))
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[list[ResolveResult]]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # Without a caller, asyncio would log the exception as never retrieved.
            task.exception()

    async def _resolve(self, owner: str, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        try:
            async with self._slots.hold(owner, "", seconds=_WAIT_SECONDS):
                look_up = partial(self._look_up, host, port, family)
                return await asyncio.wrap_future(call_in_daemon_thread(look_up, name="lookup"))
        except FullError:
            raise OSError(errno.ENOBUFS, f"too many DNS lookups of logical cluster {owner!r} are in flight") from None

    def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        found = self._get_addresses(host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG)
        return [_convert(host, address) for address in found]


class _Resolver(AbstractResolver):
    def __init__(self, shared: SharedResolver, owner: str) -> None:
        self._shared: Final = shared
        self._owner: Final = owner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return await self._shared.resolve(self._owner, host, port, family)

    async def close(self) -> None:
        """Do nothing: other owners share the threads."""


def _make_result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=socket.IPPROTO_TCP, flags=flags)


def _convert(host: str, address: Address) -> ResolveResult:
    family, _, protocol, _, where = address
    # Unlike the numeric address alone, the result contains the zone of a link-local address.
    number, port = socket.getnameinfo(where, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return ResolveResult(
        hostname=host, host=number, port=int(port), family=family, proto=protocol,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )  # fmt: skip
