"""Resolve the host names of webhooks, and refuse private addresses, because tenants choose the URLs (SSRF).

An address is checked when its socket is created, after the name was resolved. A name that resolves to another address a
moment later (DNS rebinding) therefore cannot pass the check.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from fleethook.model.formats.fixed_addresses import NO_FIXED_ADDRESSES, FixedAddresses
from fleethook.outbound.call_limits import CallSlots, FullError, Quotas
from fleethook.work.worker import call_in_daemon_thread

# The IANA registry of special-purpose IPv4 addresses (RFC 6890 and later), and multicast. The list is explicit, because
# ``ipaddress.is_global`` differs between the supported versions of Python.
_PRIVATE_4: Final = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        # The platform address of Azure: public by its number, but the host of the virtual machine answers.
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# All global unicast addresses; others (loopback, ULA, link-local, multicast) must not be called.
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
# Exceptions in that range: protocol assignments with Teredo, documentation (RFC 3849, RFC 9637).
_PRIVATE_6: Final = tuple(ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
# Prefixes that embed an IPv4 address, to which the packet is finally sent, and its offset in bits from the right.
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_6TO4: Final = ipaddress.IPv6Network("2002::/16")
_EMBEDDING: Final = ((_MAPPED, 0), (_NAT64, 0), (_6TO4, 80))
_IPV4_MASK: Final = 0xFFFFFFFF


class PrivateAddressError(OSError):
    """The address is private and must not be dialled."""

    def __init__(self, address: str) -> None:
        """Prepare; all errors have the same text, so that aiohttp joins those of a name with several addresses."""
        super().__init__("private address")
        self.address: Final = address


def is_private(address: str) -> bool:
    """Return whether an address is not on the public internet; text that is no address counts as private."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    if isinstance(parsed, ipaddress.IPv4Address):
        return any(parsed in network for network in _PRIVATE_4)
    if parsed.scope_id is not None:
        return True
    for network, shift in _EMBEDDING:
        if parsed in network:
            return is_private(str(ipaddress.IPv4Address(int(parsed) >> shift & _IPV4_MASK)))
    return parsed not in _GLOBAL_6 or any(parsed in network for network in _PRIVATE_6)


def refuse_private_number(host: str) -> None:
    """Refuse a host that is a private IPv4 address, in any spelling that resolvers accept (decimal, octal, hex, short).

    Raises:
        PrivateAddressError: The host is such an address.
    """
    try:
        address = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return
    if is_private(address):
        raise PrivateAddressError(address)


def public_socket(info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
    """Return a socket for an address, before it is dialled.

    Args:
        info: As of ``socket.getaddrinfo``.

    Raises:
        PrivateAddressError: The address is private.
    """
    family, kind, protocol, _, address = info
    if is_private(address[0]):
        raise PrivateAddressError(address[0])
    return socket.socket(family, kind, protocol)


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
