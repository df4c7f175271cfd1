"""POSTing a body to a webhook and getting one back (kube-apiserver's webhook clients; research 2.13, 2.14 and 3)."""

import asyncio
import hashlib
import math
import time
from collections.abc import Callable
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from app.outbound.addresses import refuse_private_number
from app.outbound.answer import read_answer
from app.outbound.body import WholeBody
from app.outbound.breaker import Breakers
from app.outbound.endpoint import Endpoint
from app.outbound.errors import CallError, NotCalledError, escaped, posting, quoted
from app.outbound.pool import PoolKey, Pools
from app.outbound.reasons import private_address_in, reason_of
from app.outbound.trust import TrustError, trusting

__all__ = ["RESPONSE_LIMIT", "CallError", "HookClient"]

# What an answer may have; a webhook that sends more is cut off.
RESPONSE_LIMIT: Final = 8 * 1024 * 1024
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    # Compression is of no use in a cluster, and is what bombs are made of.
    "Accept-Encoding": "identity",
    "User-Agent": "fleethook",
}


class HookClient:
    """Keeps connections and breakers, by partition and endpoint; an asynchronous context manager, or close it.

    A request is never sent twice: whether a webhook has acted on the first one cannot be known, and Go's client repeats
    a POST only if none of it was written. Connections that were closed while idle are found before writing (`Pool`).
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        response_limit: int = RESPONSE_LIMIT,
        resolver: AbstractResolver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            allow_private: Whether addresses that are not of the public internet may be called. Services of the
                cluster itself, which is the partition ``""``, always may.
            response_limit: In bytes, on the wire and decompressed.
            resolver: What resolves names, the system's if there is none.
            clock: Seconds, for how long breakers rest.
        """
        self._allow_private: Final = allow_private
        self._limit: Final = response_limit
        self._pools: Final = Pools(resolver)
        self._breakers: Final = Breakers(clock=clock)

    async def __aenter__(self) -> Self:
        """Return itself, once the system's authorities are read: that takes long enough to be felt by requests."""
        await asyncio.to_thread(trusting, "")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._pools.close()

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: float, partition: str = "") -> bytes:
        """Return what the webhook answers.

        Args:
            endpoint: Where.
            body: JSON.
            seconds: How long it may take, all in all; the webhook is told, too.
            partition: On whose behalf (a logical cluster); partitions share neither connections nor breakers.

        Raises:
            CallError: There is no answer that can be used.
        """
        url = called_url(endpoint.url, seconds)
        breaker = self._breakers.of(_breaker_key(partition, endpoint))
        if not breaker.allow():
            raise NotCalledError(posting(url, "it failed several times in a row and is not asked for now"))
        ok: bool | None = None
        try:
            async with asyncio.timeout(seconds):
                answer = await self._call(endpoint, url, body, partition)
            ok = True
        except TimeoutError:
            ok = False
            raise CallError(posting(url, "context deadline exceeded"), timed_out=True) from None
        except CallError as error:
            ok = None if isinstance(error, NotCalledError) else _alive(error.code)
            raise
        finally:
            if ok is None:
                breaker.forget()
            else:
                breaker.record(ok=ok)
        return answer

    async def _call(self, endpoint: Endpoint, url: URL, body: bytes, partition: str) -> bytes:
        guarded = not self._allow_private and not (endpoint.service and partition == "")
        try:
            if guarded:
                refuse_private_number(url.raw_host or "")
            key = PoolKey(partition, str(url.origin()), endpoint.server_name, endpoint.ca_bundle, guarded)
            with self._pools.lease(key) as session:
                return await self._post(session, endpoint, url, body)
        except TrustError as error:
            raise NotCalledError(posting(url, str(error))) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if (address := private_address_in(error)) is not None:
                raise _private(url, address) from error
            raise CallError(posting(url, reason_of(error, url))) from error

    async def _post(self, session: aiohttp.ClientSession, endpoint: Endpoint, url: URL, body: bytes) -> bytes:
        response = await session.post(
            url,
            data=WholeBody(body),
            headers=_HEADERS,
            server_hostname=endpoint.server_name or None,
            allow_redirects=False,
        )
        try:
            answer = await read_answer(response, url=url, limit=self._limit)
        except BaseException:
            # What is left of an answer must not be there when the connection is used next.
            response.close()
            raise
        response.release()
        return answer


def called_url(url: str, seconds: float) -> URL:
    """Return what is called: ``url`` and how long it may take, in whole seconds, rounded up.

    Raises:
        NotCalledError: It is no HTTPS URL.
    """
    try:
        parsed = URL(url)
    except ValueError as error:
        raise NotCalledError(posting(url, f"it is no URL: {escaped(str(error))}")) from None
    if parsed.scheme != "https":
        raise NotCalledError(posting(url, f"unsupported protocol scheme {quoted(parsed.scheme)}"))
    if not parsed.raw_host:
        raise NotCalledError(posting(url, "no Host in request URL"))
    # Neither a password nor a fragment is part of a webhook's URL by the rules for configurations.
    return parsed.with_user(None).with_fragment(None).update_query(timeout=f"{math.ceil(seconds)}s")


def _private(url: URL, address: str) -> NotCalledError:
    reason = (
        f"{escaped(url.host or '')} is a private address ({escaped(address)}), and this server may not call those: "
        "setting private_webhooks"
    )
    return NotCalledError(posting(url, reason))


def _alive(code: int) -> bool:
    """Return whether a webhook that answered ``code`` is one to ask again: it understood, and holds nobody up."""
    return 300 <= code < 500 and code != 429


def _breaker_key(partition: str, endpoint: Endpoint) -> bytes:
    """Return a key for a breaker: of a fixed size, since URLs and authorities are chosen by others."""
    return hashlib.sha256(repr((partition, endpoint)).encode()).digest()
