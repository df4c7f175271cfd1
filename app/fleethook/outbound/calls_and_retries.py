"""POST a body to a webhook and return the response, as kube-apiserver does (k8s.io/apiserver/pkg/util/webhook)."""

import asyncio
import contextlib
import errno
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, NoReturn, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from fleethook.fair_limits import MAX_WEBHOOK_CALLS, WEBHOOK_CALLS_PART, CallLimit, LimitError
from fleethook.model.formats.client_config_and_addresses import NO_FIXED_ADDRESSES, FixedAddresses, WebhookEndpoint
from fleethook.model.formats.text import escape_line
from fleethook.outbound.call_errors_and_failure_log import (
    CallError,
    FailureLog,
    NotCalledError,
    OverloadedError,
    describe_error,
    make_timeout_error,
    posting,
    private_address_in,
    quoted,
)
from fleethook.outbound.certificate_trust import TrustError, load_roots
from fleethook.outbound.connection_pools_and_dns import PoolKey, Pools
from fleethook.outbound.private_addresses_and_proxies import describe_private_address, refuse_private_number
from fleethook.outbound.response_bodies import RESPONSE_LIMIT, SingleWriteBody, read_response
from fleethook.tracing.spans_and_otel_variables import propagated_headers

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    # Compression is useless inside a cluster, and allows decompression bombs.
    "Accept-Encoding": "identity",
    "User-Agent": "fleethook",
}
HEADER: Final = "Fleethook-Hops"
OUTGOING: Final = {HEADER: "1"}
"""The headers of all calls that the dispatch engine makes."""
_NAME: Final = HEADER.lower().encode()


def was_dispatched(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request has the header, with any value.

    Args:
        headers: Headers of an ASGI scope, with names in lower case.
    """
    return any(name == _NAME for name, _ in headers)


# The system cannot open another connection, which is no fault of the webhook.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
STARTS_PER_ITERATION: Final = 4
"""Calls that start in one iteration of the event loop. A TLS handshake blocks the loop for 1 to 2 ms."""


Encode = Callable[[], bytes | Awaitable[bytes]]
"""Encodes the body of a call, directly or in a thread."""


class Parties(NamedTuple):
    """The logical clusters of a call; ``""`` is the cluster itself."""

    owner: str = ""
    """The cluster of the webhook configuration; owners share no connections."""
    consumer: str = ""
    """The cluster of the request; consumers share the calls in flight."""


LOCAL: Final = Parties()


class _Call(NamedTuple):
    """One call, which may need several requests."""

    endpoint: WebhookEndpoint
    url: URL
    body: bytes
    parties: Parties
    until: float
    """The deadline of the caller or the webhook's timeout, whichever is earlier, by the event loop's clock."""
    own_until: float
    """The end of the webhook's timeout."""

    @property
    def is_cut_short(self) -> bool:
        """Whether the caller's deadline is earlier than the end of the webhook's timeout."""
        return self.until < self.own_until


class HookClient:
    """Holds connections and limits calls. Use it as an asynchronous context manager, or close it.

    A request is retried only if the webhook asks for it (`_read_retry_after`). Without a
    response, the webhook may have acted on the request, and Go's client retries a POST only if none of it was written.
    The client detects idle connections that the server has closed before it writes
    (`fleethook.outbound.connection_pools_and_dns`).

    Attributes:
        calls: The calls in flight.
        failures: Logs connections that webhooks break.
        retries: The number of retried requests by status: ``429`` or ``5xx``.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        response_limit: int = RESPONSE_LIMIT,
        resolver: AbstractResolver | None = None,
        fixed: FixedAddresses = NO_FIXED_ADDRESSES,
        max_calls: int = MAX_WEBHOOK_CALLS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare.

        Args:
            allow_private: Whether private addresses may be called. Services of the cluster itself (owner ``""``) may
                always be called.
            response_limit: The maximum response body in bytes, on the wire and decompressed.
            resolver: Resolves names; None for the system's resolver.
            fixed: Addresses by name. The system's resolver is not asked for these names.
            max_calls: The maximum number of calls in flight.
            headers: Additional headers of each call.
        """
        self._headers: Final = {**_HEADERS, **(headers or {})}
        self._allow_private: Final = allow_private
        self._limit: Final = response_limit
        self._pools: Final = Pools(resolver, fixed=fixed)
        self.calls: Final = CallLimit(max_calls, part=WEBHOOK_CALLS_PART)
        self._starts = 0
        self.failures: Final = FailureLog()
        self.retries: Final = {"429": 0, "5xx": 0}

    async def __aenter__(self) -> Self:
        """Open the client, and return it."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self.close()

    async def open(self) -> None:
        """Load the system's certificate authorities, so that the first request need not wait."""
        await asyncio.to_thread(load_roots, "")

    async def close(self) -> None:
        """Close every connection."""
        await self._pools.close()

    async def post(
        self,
        endpoint: WebhookEndpoint,
        body: bytes | Encode,
        *,
        seconds: float,
        within: float | None = None,
        parties: Parties = LOCAL,
    ) -> bytes:
        """Call a webhook and return the body of its response.

        Args:
            endpoint: The webhook.
            body: JSON, or a function that encodes it when the call starts.
            seconds: The webhook's timeout.
            within: The time until the caller's deadline, by default ``seconds``. The request tells the webhook the
                smaller of the two.
            parties: The clusters of the call.

        Raises:
            OverloadedError: The call was not made, because of the limit of calls or limits of the system.
            CallError: There is no usable response.
        """
        within = seconds if within is None else within
        url = called_url(endpoint.url, min(seconds, within))
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        try:
            async with self.calls.hold(parties.consumer, seconds=within) as waited:
                await self._wait_to_start()
                left = until - loop.time() if waited else within
                if left <= 0:
                    raise make_timeout_error(url, cut_short=True)
                given = min(seconds, left)
                url = called_url(endpoint.url, given)
                made = body if isinstance(body, bytes) else await _encode(body)
                now = loop.time()
                call = _Call(endpoint, url, made, parties, until=now + given, own_until=now + seconds)
                try:
                    async with asyncio.timeout_at(call.until):
                        return await self._call(call)
                except TimeoutError:
                    raise make_timeout_error(call.url, cut_short=call.is_cut_short) from None
        except LimitError:
            calls, consumer = self.calls, parties.consumer
            of_consumer = f"{calls.held.get(consumer, 0)} of them for logical cluster {consumer!r}"
            reason = f"{calls.total} of at most {calls.limit} calls are in flight, {of_consumer}"
            raise OverloadedError(posting(url, reason)) from None

    async def _wait_to_start(self) -> None:
        """Wait for an iteration of the event loop in which a call may connect."""
        while self._starts >= STARTS_PER_ITERATION:  # noqa: ASYNC110 - it counts iterations
            await asyncio.sleep(0)
        self._starts += 1
        if self._starts == 1:
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._starts = 0

    async def _call(self, call: _Call) -> bytes:
        endpoint, url, partition = call.endpoint, call.url, call.parties.owner
        guarded = not self._allow_private and not (endpoint.service and partition == "")
        try:
            if guarded:
                refuse_private_number(url.raw_host or "")
            key = PoolKey(partition, str(url.origin()), endpoint.server_name, endpoint.ca_bundle, guarded)
            async with self._pools.lease(key) as session:
                response = await self._send_with_retries(session, call)
                return await self._read(response, url)
        except TrustError as error:
            raise NotCalledError(posting(url, str(error))) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if (address := private_address_in(error)) is not None:
                raise NotCalledError(posting(url, describe_private_address(url.host or "", address))) from error
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                reason = f"this server cannot open another connection: {describe_error(error, url)}"
                raise OverloadedError(posting(url, reason)) from error
            raise CallError(posting(url, describe_error(error, url))) from error

    async def _send_with_retries(self, session: aiohttp.ClientSession, call: _Call) -> aiohttp.ClientResponse:
        """Return the response after the retries that the webhook asks for. It is one call for the limit."""
        for _ in range(MAX_RETRIES):
            response = await self._send(session, call)
            seconds = _read_retry_after(response)
            if seconds is None:
                return response
            if asyncio.get_running_loop().time() + seconds >= call.until:
                await self._fail_early(response, call, seconds)
            await _discard(response)
            await asyncio.sleep(seconds)
            await self._wait_to_start()
            self.retries["429" if response.status == _TOO_MANY_REQUESTS else "5xx"] += 1
        return await self._send(session, call)

    async def _send(self, session: aiohttp.ClientSession, call: _Call) -> aiohttp.ClientResponse:
        return await session.post(
            call.url,
            data=SingleWriteBody(call.body),
            headers={**self._headers, **propagated_headers()},
            server_hostname=call.endpoint.server_name or None,
            allow_redirects=False,
        )

    async def _fail_early(self, response: aiohttp.ClientResponse, call: _Call, seconds: int) -> NoReturn:
        """Raise CallError at once instead of waiting for the deadline; client-go would wait, with the same result.

        The call is cut short if only the caller's deadline, and not the webhook's timeout, is too early for the retry.
        """
        again = asyncio.get_running_loop().time() + seconds
        try:
            await self._read(response, call.url)
        except CallError as error:
            reason = f"{error.reason}; the Retry-After of {seconds} s exceeds the remaining time"
            raise CallError(reason, code=response.status, cut_short=again < call.own_until) from error
        raise AssertionError("a response with Retry-After is never a success")

    async def _read(self, response: aiohttp.ClientResponse, url: URL) -> bytes:
        try:
            body = await read_response(response, url=url, limit=self._limit)
        except BaseException:
            # The next request on the connection must not read the rest of this response.
            response.close()
            raise
        response.release()
        return body


MAX_RETRIES: Final = 10
"""Retries of one call (``maxRetries`` of a request in client-go)."""
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
# The syntax of Go's strconv.Atoi. For a date, which RFC 9110 also allows, client-go does not retry.
_RETRY_SECONDS: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
# client-go reads this much of an unused response, so that the connection can be reused.
_MAX_DISCARDED_BYTES: Final = 2048


def _read_retry_after(response: aiohttp.ClientResponse) -> int | None:
    """Return the seconds until the retry that a webhook asks for, None if it asks for none."""
    if response.status != _TOO_MANY_REQUESTS and response.status < _SERVER_ERROR:
        return None
    text = response.headers.get("Retry-After", "").strip(" \t")
    return max(int(text), 0) if _RETRY_SECONDS.fullmatch(text) else None


async def _discard(response: aiohttp.ClientResponse) -> None:
    """Discard a response; its connection is reused only if the response is short and complete."""
    left = _MAX_DISCARDED_BYTES
    complete = False
    try:
        # An incomplete response does not prevent the retry; client-go ignores such errors, too.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            if (response.content_length or 0) <= left:
                while chunk := await response.content.read(left):
                    left -= len(chunk)
            complete = response.content.at_eof()
    finally:
        # This also runs if the deadline cancels the read.
        if complete:
            response.release()
        else:
            response.close()


def called_url(url: str, seconds: float) -> URL:
    """Return ``url`` with the query ``timeout``, in seconds, rounded up.

    Raises:
        NotCalledError: The URL is invalid or not HTTPS.
    """
    try:
        parsed = URL(url)
    except ValueError as error:
        raise NotCalledError(posting(url, f"invalid URL: {escape_line(str(error))}")) from None
    if parsed.scheme != "https":
        raise NotCalledError(posting(url, f"unsupported protocol scheme {quoted(parsed.scheme)}"))
    if not parsed.raw_host:
        raise NotCalledError(posting(url, "no Host in request URL"))
    # kube-apiserver's validation forbids user information and fragments in the URL of a webhook.
    return parsed.with_user(None).with_fragment(None).update_query(timeout=f"{math.ceil(seconds)}s")


async def _encode(encode: Encode) -> bytes:
    made = encode()
    return made if isinstance(made, bytes) else await made
