"""Connection pools for webhooks, separate for each owner, origin and CA bundle, and the resolver of their names."""

import asyncio
import contextlib
import functools
import select
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage

from fleethook.fair_limits import FairCache
from fleethook.model.formats.client_config_and_addresses import NO_FIXED_ADDRESSES, FixedAddresses
from fleethook.outbound.certificate_trust import CallContext, load_roots
from fleethook.outbound.private_addresses_and_proxies import public_socket
from fleethook.work.threads_and_gc import Worker

# A lookup takes milliseconds, and each session caches the result for ten seconds. A single owner has half of these.
_THREADS: Final = 64

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
        self._worker: Final = Worker(_THREADS, name="lookup")

    def for_owner(self, owner: str) -> AbstractResolver:
        """Return the resolver for the names of one owner."""
        return _Resolver(self, owner)

    async def resolve(self, owner: str, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        """Return the addresses of a name; raises OSError."""
        fixed = self._fixed.get((host.lower(), port))
        if fixed is not None:
            return [_make_result(host, *fixed)]
        return await self._worker.run(owner, self._look_up, host, port, family)

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


MAX_POOLS: Final = 1_000
"""The maximum number of pools. Pools in use stay open even beyond it."""
# IdleConnTimeout of k8s.io/apimachinery/pkg/util/net (SetTransportDefaults).
_IDLE_SECONDS: Final = 90.0
MAX_IDLE_CONNECTIONS: Final = 25
"""The maximum number of idle connections in a pool (``idleConnsPerHost`` of k8s.io/client-go/transport)."""
MAX_INTERIM_RESPONSES: Final = 100
# A bundle of this size takes a few milliseconds to decode; larger ones are decoded in a thread.
_MAX_BUNDLE_ON_LOOP: Final = 64 * 1024


class PoolKey(NamedTuple):
    """Identifies a pool: calls with equal keys may share connections."""

    partition: str
    origin: str
    server_name: str
    ca_bundle: str
    guarded: bool
    """Whether private addresses are refused."""


class _Pool:
    """A session, and the number of calls that use it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session: Final = session
        self.calls = 0


class Pools:
    """A session for each key. The partition with most sessions loses idle ones first; sessions in use stay open."""

    def __init__(
        self, resolver: AbstractResolver | None, *, fixed: FixedAddresses = NO_FIXED_ADDRESSES, limit: int = MAX_POOLS
    ) -> None:
        """Prepare; without ``resolver``, `SharedResolver` resolves names, with the ``fixed`` addresses."""
        self._resolver: Final = resolver
        self._resolvers: Final = SharedResolver(fixed=fixed)
        self._pools: Final[FairCache[PoolKey, _Pool]] = FairCache(limit, is_idle=lambda pool: pool.calls == 0)
        self._closing: Final[set[asyncio.Task[None]]] = set()

    def __len__(self) -> int:
        return len(self._pools)

    @contextlib.asynccontextmanager
    async def lease(self, key: PoolKey) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield the session of a key.

        Raises:
            TrustError: The certificate authorities of the key cannot be loaded.
        """
        pool = self._pools.get(key.partition, key)
        if pool is None:
            is_small = len(key.ca_bundle) <= _MAX_BUNDLE_ON_LOOP
            context = _create_context(key) if is_small else await asyncio.to_thread(_create_context, key)
            # Another call may have opened the pool meanwhile.
            pool = self._pools.get(key.partition, key)
        if pool is None:
            resolver = self._resolver or self._resolvers.for_owner(key.partition)
            pool = _Pool(_open_session(key, context, resolver=resolver))
            pool.calls += 1
            for evicted in self._pools.put(key.partition, key, pool):
                self._close(evicted)
        else:
            pool.calls += 1
        try:
            yield pool.session
        finally:
            pool.calls -= 1

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.session.close()
        await asyncio.gather(*self._closing)

    def _close(self, pool: _Pool) -> None:
        task = asyncio.ensure_future(pool.session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Handler(ResponseHandler):
    """Limits interim responses (HTTP 1xx), of which aiohttp accepts any number until the deadline."""

    _interim = 0

    async def read(self) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
        message, body = await super().read()
        self._interim = self._interim + 1 if 100 <= message.code < 200 else 0
        if self._interim > MAX_INTERIM_RESPONSES:
            text = f"more than {MAX_INTERIM_RESPONSES} interim responses (HTTP 1xx)"
            raise HttpProcessingError(code=message.code, message=text)
        return message, body


class _Connector(aiohttp.TCPConnector):
    """Does not reuse an idle connection with data or an end of stream.

    aiohttp retries requests on a connection that the server has closed, but not a POST, so the connector checks for the
    end of stream first. Unsolicited data must not be read as the response to the next call.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # mypy does not accept a partial of a subclass.
        self._factory = cast("functools.partial[ResponseHandler]", functools.partial(_Handler, loop=self._loop))

    async def _get(self, key: ConnectionKey, traces: list[Any]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if not _has_input(connection):
                return connection
            connection.close()
        return None

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        full = len(self._conns.get(key, ())) >= MAX_IDLE_CONNECTIONS
        super()._release(key, protocol, should_close=should_close or full)


def _has_input(connection: Connection) -> bool:
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None or protocol.should_close:
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _create_context(key: PoolKey) -> CallContext:
    return CallContext(load_roots(key.ca_bundle))


def _open_session(key: PoolKey, context: CallContext, *, resolver: AbstractResolver) -> aiohttp.ClientSession:
    connector = _Connector(
        ssl=context,
        limit=0,
        keepalive_timeout=_IDLE_SECONDS,
        resolver=resolver,
        socket_factory=public_socket if key.guarded else None,
    )
    # The caller sets the deadline. Cookies and proxies of the environment are disabled, so that a webhook receives the
    # review and nothing else. `read_body` decompresses bodies within its limit.
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
    )
