"""POSTing a body to a webhook and getting one back (kube-apiserver's webhook clients; research 2.13, 2.14 and 3)."""

import asyncio
import errno
import hashlib
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, NoReturn, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from app.outbound.addresses import refuse_private_number
from app.outbound.body import WholeBody
from app.outbound.breaker import Breakers, Evidence
from app.outbound.call_slots import CallSlots, FullError, Quotas
from app.outbound.credential import Credential
from app.outbound.endpoint import Endpoint
from app.outbound.error_text import describe_error, private_address_in
from app.outbound.errors import CallError, NotCalledError, OverloadedError, escaped, posting, quoted
from app.outbound.pool import PoolKey, Pools
from app.outbound.response import read_response
from app.outbound.retry import MAX_RETRIES, discard, retry_after
from app.outbound.trust import TrustError, trusting

__all__ = ["LOCAL", "RESPONSE_LIMIT", "CallError", "Encode", "HookClient", "Parties"]

# What an answer may have; a webhook that sends more is cut off.
RESPONSE_LIMIT: Final = 8 * 1024 * 1024
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    # Compression is of no use in a cluster, and is what bombs are made of.
    "Accept-Encoding": "identity",
    "User-Agent": "fleethook",
}


# The system has no room for another connection: that is no fault of the webhook.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
_TOO_MANY_REQUESTS: Final = 429
_FULL: Final = {
    "connections": "this server calls it {} times at once for logical cluster {!r}, which is the limit",
    "calls": "this server makes {} calls at once for logical cluster {!r}, which is the limit",
    "total": "this server makes {} calls at once, which is the limit",
}


Encode = Callable[[], bytes | Awaitable[bytes]]
"""Makes the body of a call, at once or in a thread."""


class Parties(NamedTuple):
    """The logical clusters that a call belongs to; ``""`` is the cluster itself."""

    owner: str = ""
    """The cluster of the webhook; owners share no connections."""
    consumer: str = ""
    """The cluster of the request; consumers share no quotas and no breakers."""


LOCAL: Final = Parties()


class _Call(NamedTuple):
    """One call, which may take several requests."""

    endpoint: Endpoint
    url: URL
    body: bytes
    parties: Parties
    credential: Credential | None
    until: float
    """When the caller or the webhook's own time ends it, by the event loop's clock."""
    own_until: float
    """When the webhook's own time is up."""

    @property
    def is_cut_short(self) -> bool:
        """Whether the caller cannot wait as long as the webhook may take."""
        return self.until < self.own_until


class HookClient:
    """Keeps connections, quotas and breakers; an asynchronous context manager, or close it.

    A request is sent again only if the webhook says so (`app.outbound.retry`): whether it has acted on one without an
    answer cannot be known, and Go's client repeats a POST only if none of it was written. Connections that were closed
    while idle are found before writing (`Pool`).

    Attributes:
        slots: The calls under way.
        retries: How often requests were sent again, by status: ``429`` or ``5xx``.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        response_limit: int = RESPONSE_LIMIT,
        resolver: AbstractResolver | None = None,
        quotas: Quotas | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare.

        Args:
            allow_private: Whether addresses that are not of the public internet may be called. Services of the
                cluster itself, whose owner is ``""``, always may.
            response_limit: In bytes, on the wire and decompressed.
            resolver: What resolves names, the system's if there is none.
            quotas: How many calls may be under way.
            headers: Headers of each call besides the usual ones.
        """
        self._headers: Final = {**_HEADERS, **(headers or {})}
        self._allow_private: Final = allow_private
        self._limit: Final = response_limit
        self._pools: Final = Pools(resolver)
        self._breakers: Final = Breakers()
        self.slots: Final = CallSlots(quotas or Quotas())
        self.retries: Final = {"429": 0, "5xx": 0}

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

    def is_silent(self, endpoint: Endpoint, parties: Parties) -> bool:
        """Return whether the last calls of a consumer had no answer, so that its breaker is open."""
        return self._breakers.is_open(parties.consumer, _breaker_key(parties.owner, endpoint))

    async def post(
        self,
        endpoint: Endpoint,
        body: bytes | Encode,
        *,
        seconds: float,
        within: float | None = None,
        parties: Parties = LOCAL,
        insist: bool = False,
        credential: Credential | None = None,
    ) -> bytes:
        """Return what the webhook answers.

        Args:
            endpoint: Where.
            body: JSON, or a function that makes it once the call may begin.
            seconds: How long the webhook may take: its own time.
            within: How long the caller can wait, ``seconds`` if not given. The webhook is told the smaller of the two.
            parties: The clusters that the call belongs to.
            insist: Whether to call even if the breaker is open. A caller that takes a failure for consent has to.
            credential: As whom; nobody else's calls use the same connections.

        Raises:
            OverloadedError: The call was not made, because quotas or the system have no room for it.
            CallError: There is no answer that can be used.
        """
        within = seconds if within is None else within
        url = called_url(endpoint.url, min(seconds, within))
        key = _breaker_key(parties.owner, endpoint)
        self._refuse_silent(parties, key, url, insist=insist)
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        try:
            async with self.slots.hold(parties.consumer, key, seconds=within) as waited:
                left = until - loop.time() if waited else within
                if left <= 0:
                    raise _timed_out(url, cut_short=True)
                self._refuse_silent(parties, key, url, insist=insist)
                given = min(seconds, left)
                url = called_url(endpoint.url, given)
                made = body if isinstance(body, bytes) else await _encoded(body)
                now = loop.time()
                call = _Call(endpoint, url, made, parties, credential, until=now + given, own_until=now + seconds)
                return await self._watched(call)
        except FullError as error:
            count = getattr(self.slots.quotas, error.limit)
            reason = _FULL[error.limit].format(count, parties.consumer)
            raise OverloadedError(posting(url, reason), limit=error.limit) from None

    def _refuse_silent(self, parties: Parties, key: bytes, url: URL, *, insist: bool) -> None:
        if not insist and self._breakers.refuses(parties.consumer, key):
            reason = "its last calls had no answer, and another call is under way to try it again"
            raise NotCalledError(posting(url, reason))

    async def _watched(self, call: _Call) -> bytes:
        """Call, and tell the breaker how it went.

        Only what does not depend on the request is evidence against a webhook: that it cannot be connected to, or gave
        no answer in its own time. Any answer is evidence for it, an error or a denial as well.
        """
        evidence = Evidence(self._breakers, call.parties.consumer, _breaker_key(call.parties.owner, call.endpoint))
        try:
            async with asyncio.timeout_at(call.until):
                answer = await self._call(call, evidence)
            evidence.answered()
        except TimeoutError:
            if not call.is_cut_short:
                evidence.timed_out()
            raise _timed_out(call.url, cut_short=call.is_cut_short) from None
        except CallError as error:
            if error.code:
                evidence.answered()
            elif _unconnected(error):
                evidence.unconnected()
            raise
        finally:
            evidence.close()
        return answer

    async def _call(self, call: _Call, evidence: Evidence) -> bytes:
        endpoint, url, partition = call.endpoint, call.url, call.parties.owner
        guarded = not self._allow_private and not (endpoint.service and partition == "")
        try:
            if guarded:
                refuse_private_number(url.raw_host or "")
            key = PoolKey(
                partition, str(url.origin()), endpoint.server_name, endpoint.ca_bundle, guarded, call.credential
            )
            with self._pools.lease(key) as session:
                response = await self._ask(session, call, evidence)
                return await self._read(response, url)
        except TrustError as error:
            raise NotCalledError(posting(url, str(error))) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if (address := private_address_in(error)) is not None:
                raise _private(url, address) from error
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                reason = f"this server has no room for another connection: {describe_error(error, url)}"
                raise OverloadedError(posting(url, reason), limit="") from error
            raise CallError(posting(url, describe_error(error, url))) from error

    async def _ask(self, session: aiohttp.ClientSession, call: _Call, evidence: Evidence) -> aiohttp.ClientResponse:
        """Return the answer, after as many repetitions as the webhook wants within the time; it holds one slot."""
        for _ in range(MAX_RETRIES):
            response = await self._send(session, call)
            seconds = retry_after(response)
            if seconds is None:
                return response
            evidence.answered()
            if asyncio.get_running_loop().time() + seconds >= call.until:
                await self._fail_early(response, call, seconds)
            await discard(response)
            await asyncio.sleep(seconds)
            await self.slots.take_turn()
            self.retries["429" if response.status == _TOO_MANY_REQUESTS else "5xx"] += 1
        return await self._send(session, call)

    async def _send(self, session: aiohttp.ClientSession, call: _Call) -> aiohttp.ClientResponse:
        credential = call.credential
        authorization = "" if credential is None else credential.authorization
        return await session.post(
            call.url,
            data=WholeBody(call.body),
            headers={**self._headers, "Authorization": authorization} if authorization else self._headers,
            server_hostname=call.endpoint.server_name or None,
            allow_redirects=False,
        )

    async def _fail_early(self, response: aiohttp.ClientResponse, call: _Call, seconds: int) -> NoReturn:
        """Raise CallError instead of waiting until the time is up, as client-go does, with the same result.

        If only the caller's own time is too short, it is the caller who cut the call short.
        """
        again = asyncio.get_running_loop().time() + seconds
        try:
            await self._read(response, call.url)
        except CallError as error:
            reason = f"{error.reason}; it wants to be called again in {seconds} s, when no time is left"
            raise CallError(reason, code=response.status, cut_short=again < call.own_until) from error
        raise AssertionError("no answer with such a status is a success")

    async def _read(self, response: aiohttp.ClientResponse, url: URL) -> bytes:
        try:
            answer = await read_response(response, url=url, limit=self._limit)
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


async def _encoded(encode: Encode) -> bytes:
    made = encode()
    return made if isinstance(made, bytes) else await made


def _private(url: URL, address: str) -> NotCalledError:
    reason = (
        f"{escaped(url.host or '')} is a private address ({escaped(address)}), and this server may not call those: "
        "setting private_webhooks"
    )
    return NotCalledError(posting(url, reason))


def _timed_out(url: URL, *, cut_short: bool) -> CallError:
    return CallError(posting(url, "context deadline exceeded"), timed_out=True, cut_short=cut_short)


def _unconnected(error: CallError) -> bool:
    """Return whether nothing was sent, because there was no connection."""
    return isinstance(error.__cause__, aiohttp.ClientConnectorError) and not isinstance(error, NotCalledError)


def _breaker_key(owner: str, endpoint: Endpoint) -> bytes:
    """Return a key of a fixed size, since URLs and authorities are chosen by others."""
    return hashlib.sha256(repr((owner, endpoint)).encode()).digest()
