"""Connections to webhooks, kept apart by the cluster of their configuration, where to and whom to trust.

How many there are is bounded by the calls that `app.outbound.call_slots` admits: a call holds one connection.
"""

import asyncio
import contextlib
import functools
import select
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage

from app.outbound.addresses import public_socket
from app.outbound.credential import Credential
from app.outbound.fair_cache import FairCache
from app.outbound.resolver import SharedResolver
from app.outbound.trust import trusting

POOLS: Final = 1_000
"""How many are kept, beyond those that are in use."""
# As kube-apiserver's (research 3).
_IDLE_SECONDS: Final = 90.0
IDLE_CONNECTIONS: Final = 25
"""How many idle connections to one place are kept."""
MAX_INTERIM_RESPONSES: Final = 100


class PoolKey(NamedTuple):
    """What connections have in common that may be used for the same calls."""

    partition: str
    origin: str
    server_name: str
    ca_bundle: str
    guarded: bool
    """Whether private addresses are refused."""
    credential: Credential | None = None
    """As whom calls are made over them."""


class _Kept:
    """A session, and how many calls use it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session: Final = session
        self.calls = 0


class Pools:
    """A session for each key. Idle ones of the partition that has most sessions are closed first, none in use ever."""

    def __init__(self, resolver: AbstractResolver | None, *, limit: int = POOLS) -> None:
        """Prepare; ``resolver`` is None for the system's, in threads that owners share fairly."""
        self._resolver: Final = resolver
        self._resolvers: Final = SharedResolver()
        self._kept: Final[FairCache[str, PoolKey, _Kept]] = FairCache(limit, is_idle=lambda kept: kept.calls == 0)
        self._closing: Final[set[asyncio.Task[None]]] = set()

    def __len__(self) -> int:
        return len(self._kept)

    @contextlib.contextmanager
    def lease(self, key: PoolKey) -> Iterator[aiohttp.ClientSession]:
        """Lend the session of a key.

        Raises:
            TrustError: The authorities of the key cannot be loaded.
        """
        kept = self._kept.get(key.partition, key)
        if kept is None:
            kept = _Kept(_session(key, self._resolver or self._resolvers.for_owner(key.partition)))
            self._kept.put(key.partition, key, kept)
        kept.calls += 1
        try:
            yield kept.session
        finally:
            kept.calls -= 1
            self._trim()

    async def close(self) -> None:
        """Close every connection."""
        for kept in self._kept.values():
            await kept.session.close()
        await asyncio.gather(*self._closing)

    def _trim(self) -> None:
        if (idle := self._kept.evict()) is not None:
            task = asyncio.ensure_future(idle.session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class _Handler(ResponseHandler):
    """Limits the interim responses before a final one: aiohttp skips any number of them until the deadline."""

    _interim = 0

    async def read(self) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
        message, body = await super().read()
        self._interim = self._interim + 1 if 100 <= message.code < 200 else 0
        if self._interim > MAX_INTERIM_RESPONSES:
            text = f"more than {MAX_INTERIM_RESPONSES} interim responses (HTTP 1xx)"
            raise HttpProcessingError(code=message.code, message=text)
        return message, body


class _Connector(aiohttp.TCPConnector):
    """Does not use a connection again on which something came while nobody asked: mostly, that it is closed.

    aiohttp repeats a request on a connection that turns out to be closed, but no POST; looking first makes that
    needless where the end has arrived already. An answer that came unasked is not taken for the one to the next call.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # For mypy a partial of a subclass is another type.
        self._factory = cast("functools.partial[ResponseHandler]", functools.partial(_Handler, loop=self._loop))

    async def _get(self, key: ConnectionKey, traces: list[Any]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if not _disturbed(connection):
                return connection
            connection.close()
        return None

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        full = len(self._conns.get(key, ())) >= IDLE_CONNECTIONS
        super()._release(key, protocol, should_close=should_close or full)


def _disturbed(connection: Connection) -> bool:
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None or protocol.should_close:
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _session(key: PoolKey, resolver: AbstractResolver) -> aiohttp.ClientSession:
    connector = _Connector(
        ssl=trusting(key.ca_bundle, key.credential),
        limit=0,
        keepalive_timeout=_IDLE_SECONDS,
        resolver=resolver,
        socket_factory=public_socket if key.guarded else None,
    )
    # The caller's deadline is the only one. No proxies from the environment and no cookies: a hook is told what it is
    # asked, and nothing else. Bodies stay compressed until they are known to fit (`read_body`).
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
    )
