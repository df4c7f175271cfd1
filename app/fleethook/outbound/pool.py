"""Connection pools for webhooks, separate for each owner, origin, CA bundle and credential.

`fleethook.outbound.call_limits` limits the number of connections, because each call uses one.
"""

import asyncio
import contextlib
import functools
import select
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage

from fleethook.fairness.cache import FairCache
from fleethook.model.formats.fixed_addresses import NO_FIXED_ADDRESSES, FixedAddresses
from fleethook.outbound.addresses import public_socket
from fleethook.outbound.endpoint import Credential
from fleethook.outbound.resolver import SharedResolver
from fleethook.outbound.tls.trust import CallContext, HeavyError, UntrustedError, load_roots

MAX_POOLS: Final = 1_000
"""The maximum number of pools, not counting those in use."""
# IdleConnTimeout of k8s.io/apimachinery/pkg/util/net (SetTransportDefaults).
_IDLE_SECONDS: Final = 90.0
MAX_IDLE_CONNECTIONS: Final = 25
"""The maximum number of idle connections in a pool (``idleConnsPerHost`` of k8s.io/client-go/transport)."""
MAX_INTERIM_RESPONSES: Final = 100
# A bundle of this size takes a few milliseconds to decode; larger ones are decoded in a thread.
_MAX_BUNDLE_ON_LOOP: Final = 64 * 1024
# Handshakes for one connection.
_MAX_ATTEMPTS: Final = 4


class PoolKey(NamedTuple):
    """Identifies a pool: calls with equal keys may share connections."""

    partition: str
    origin: str
    server_name: str
    ca_bundle: str
    guarded: bool
    """Whether private addresses are refused."""
    credential: Credential | None = None
    """Authenticates the calls."""


class _Pool:
    """A session, and the number of calls that use it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session: Final = session
        self.calls = 0


class Pools:
    """A session for each key. The partition with most sessions loses idle ones first; sessions in use stay open."""

    def __init__(
        self,
        resolver: AbstractResolver | None,
        *,
        fixed: FixedAddresses = NO_FIXED_ADDRESSES,
        limit: int = MAX_POOLS,
    ) -> None:
        """Prepare; without ``resolver``, `SharedResolver` resolves names, with the ``fixed`` addresses."""
        self._resolver: Final = resolver
        self._resolvers: Final = SharedResolver(fixed=fixed)
        self._pools: Final[FairCache[str, PoolKey, _Pool]] = FairCache(limit, is_idle=lambda pool: pool.calls == 0)
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
            self._pools.put(key.partition, key, pool)
        pool.calls += 1
        try:
            yield pool.session
        finally:
            pool.calls -= 1
            self._trim()

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.session.close()
        await asyncio.gather(*self._closing)

    def _trim(self) -> None:
        if (idle := self._pools.evict()) is not None:
            task = asyncio.ensure_future(idle.session.close())
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
    """Verifies many certificates in a thread, and does not reuse an idle connection with data or an end of stream.

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

    async def _wrap_create_connection(
        self, *args: Any, req: aiohttp.ClientRequest, **rest: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Connect. Certificates that take long to verify are verified in a thread; then the server is called again."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await super()._wrap_create_connection(*args, req=req, **rest)
            except aiohttp.ClientConnectorCertificateError as error:
                if not isinstance(error.certificate_error, HeavyError):
                    raise
                refusal, presented = error, error.certificate_error.presented
            context: CallContext = rest["ssl"]
            try:
                rest["ssl"] = await context.admit(presented, rest["server_hostname"])
            except UntrustedError as error:
                raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from None
        # Each of the servers behind one name may have its own certificates.
        raise refusal

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
    return CallContext(load_roots(key.ca_bundle), key.credential)


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
