"""The errors of an attempt, the retries that follow from them, and the end of a download by time or cancellation.

The messages of urllib3 and http.client are not shown: they have queries of URLs and values of headers, which may be
secrets.

A cancellation takes effect at once, even while the thread of the download waits. A socket's timeout is for one read, so
an origin that sends one byte of a header or of a handshake every few seconds never reaches it. Shutting the connection
down from another thread ends each of these waits.
"""

import contextlib
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPException
from types import TracebackType
from typing import Final, NamedTuple, Self

from urllib3 import exceptions

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.outbound.addresses import PrivateAddressError
from fleethook.outbound.tls.server_certificates import UNKNOWN_AUTHORITY


class Cancellation:
    """A request to end, made once and never withdrawn."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # Held while callbacks run, so that a callback never runs after its removal.
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel, from any thread; a second call changes nothing."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            for callback in self._callbacks:
                callback()

    def wait(self, seconds: float) -> bool:
        """Sleep for ``seconds`` or until the cancellation; return whether it was cancelled."""
        return self._event.wait(min(seconds, threading.TIMEOUT_MAX))

    @contextlib.contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call ``callback`` at a cancellation during the block, and at once if it is cancelled already.

        Args:
            callback: Called at most once, from another thread; it must neither wait nor raise.
        """
        with self._lock:
            self._callbacks.append(callback)
            if self._event.is_set():
                callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)


class Deadline(Cancellation):
    """The end of one attempt: its time is over, or its download was cancelled. Use it as a context manager."""

    def __init__(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        super().__init__()
        self._download = cancellation or Cancellation()
        self._stack = contextlib.ExitStack()
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.cancel)
        self._timer.daemon = True

    def watch(self, connected: socket.socket) -> None:
        """Shut a connection down at the end of the time or at a cancellation.

        This keeps a duplicate of the socket: wrapping the socket in TLS detaches its file descriptor.
        """
        duplicate = connected.dup()
        self._stack.callback(duplicate.close)
        self._stack.enter_context(self.on_cancel(partial(shut_down, duplicate)))

    def __enter__(self) -> Self:
        self._timer.start()
        self._stack.callback(self._timer.cancel)
        self._stack.enter_context(self._download.on_cancel(self.cancel))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def shut_down(connected: socket.socket) -> None:
    """Shut down a connection, established or not; the thread that uses it notices at once."""
    # The peer may have closed it before.
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


ATTEMPTS: Final = 4
"""Attempts for one URL before the next mirror."""
CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30.0
"""Limit of a read's wait for the next byte."""
_BASE_SECONDS: Final = 1.0
_CAP_SECONDS: Final = 30.0
_MAX_RETRY_AFTER: Final = 120.0
"""If an origin asks for a longer pause, the download sends it no more requests."""
RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class Timing(NamedTuple):
    """Clock, sleep and jitter; tests replace them."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    random: Callable[[float, float], float] = random.uniform
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class AttemptError(CRDsError):
    """A failed attempt.

    Attributes:
        again: Whether to retry the same URL within this download.
        after: Seconds of the origin's Retry-After; None without one.
    """

    def __init__(
        self, exit_code: Exit, text: str, *, transient: bool = False, again: bool = False, after: float | None = None
    ) -> None:
        super().__init__(exit_code, text, transient=transient)
        self.again: Final = again
        self.after: Final = after


def choose_delay(failure: AttemptError, attempt: int, random: Callable[[float, float], float]) -> float | None:
    """Return the seconds to wait before the next attempt; None to stop.

    Full jitter: a random time between 0 and a bound that doubles from 1 s to 30 s, so that a fleet of operators does
    not retry at the same moment. A Retry-After of up to 120 s takes precedence.

    Args:
        failure: The error of the attempt.
        attempt: Number of the attempt, from 1.
        random: A function like ``random.uniform``.
    """
    if not failure.again or attempt >= ATTEMPTS:
        return None
    if failure.after is not None:
        return failure.after if failure.after <= _MAX_RETRY_AFTER else None
    return random(0.0, min(_CAP_SECONDS, _BASE_SECONDS * 2 ** (attempt - 1)))


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds of a Retry-After, a number or a date (RFC 9110, 10.2.3); None without a valid one."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        at = parsedate_to_datetime(value)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - now).total_seconds())
    except (ValueError, OverflowError):
        return None


# Codes of OpenSSL's x509_vfy.h with the messages of Go's crypto/x509, which users search for.
_CERTIFICATE: Final = {
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: f"{UNKNOWN_AUTHORITY} (it is self-signed)",
    **dict.fromkeys((19, 20, 21), f"{UNKNOWN_AUTHORITY} (is its CA given?)"),
    62: "certificate is not valid for this name",
    64: "certificate is not valid for this address",
}
# Reasons of a connection that breaks: the network failed, not the server's TLS.
_CUT: Final = ("UNEXPECTED_EOF_WHILE_READING", "EOF occurred")


class MalformedError(HTTPException):
    """A response that HTTP does not allow; the message says why."""


class SlowLookupError(OSError):
    """A DNS lookup without an answer in time.

    Attributes:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        super().__init__("no answer")
        self.name: Final = name


def classify_error(error: Exception) -> AttemptError:
    """Return the AttemptError for an exception of urllib3, http.client or the system, without quoting its message."""
    causes = _list_causes(error)
    if any(isinstance(cause, PrivateAddressError) for cause in causes):
        return AttemptError(Exit.NETWORK, "a private address, which this download does not allow")
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return _classify_tls(cause)
        if isinstance(cause, exceptions.ProxyError):
            return _classify_proxy(cause)
    return _classify_network(error)


def make_timeout_error(seconds: float) -> AttemptError:
    """Return the error for a download whose time is over."""
    return AttemptError(Exit.NETWORK, f"not done within {seconds:g} s", transient=True)


def _list_causes(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes: by chain, by argument, or as urllib3 keeps the original."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting and len(found) < 16:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and cause not in found:
            found.append(cause)
            waiting += [*cause.args, getattr(cause, "original_error", None), cause.__cause__, cause.__context__]
    return found


def _classify_tls(error: ssl.SSLError) -> AttemptError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return AttemptError(Exit.TLS, f"x509: {_CERTIFICATE.get(error.verify_code, 'certificate is not accepted')}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or error.reason in _CUT:
        return _make_retryable("the connection ended during TLS")
    what = (error.reason or "handshake failed").replace("_", " ").lower()
    return AttemptError(Exit.TLS, f"tls: {what}")


def _classify_proxy(error: exceptions.ProxyError) -> AttemptError:
    for cause in _list_causes(error)[1:]:
        status = _parse_tunnel_status(cause)
        if status == 407:
            return make_proxy_credentials_error()
        if status:
            text = f"the proxy refused the tunnel: HTTP {status}"
            return _make_retryable(text) if status in RETRIED else AttemptError(Exit.NETWORK, text)
    inner = _classify_network(error)
    return AttemptError(Exit.NETWORK, f"proxy: {inner}", transient=True, again=inner.again)


def make_proxy_credentials_error() -> AttemptError:
    """Return the error for a proxy that requires credentials (HTTP 407)."""
    return AttemptError(Exit.NETWORK, "the proxy requires credentials (HTTP 407): give them in the proxy URL")


def _parse_tunnel_status(error: BaseException) -> int:
    # http.client has no exception type: OSError("Tunnel connection failed: 407 Proxy Authentication Required").
    text = str(error)
    start, _, rest = text.partition("Tunnel connection failed: ")
    status = rest[:3]
    return int(status) if not start and status.isascii() and status.isdigit() else 0


def _classify_network(error: Exception) -> AttemptError:
    causes = _list_causes(error)
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return _classify_lookup(cause)
        if text := _describe_malformed(cause):
            return AttemptError(Exit.HTTP, f"malformed HTTP response: {text}", transient=True)
        if text := _describe_known(cause):
            return _make_retryable(text)
    if any(isinstance(cause, exceptions.LocationParseError) for cause in causes):
        return AttemptError(Exit.NETWORK, "the host is not a valid name")
    if any(isinstance(cause, exceptions.ProtocolError) for cause in causes):
        return _make_retryable("the connection ended before the response was complete")
    return _make_retryable(f"the connection failed ({type(causes[-1]).__name__})")


def _describe_malformed(cause: BaseException) -> str:
    # http.client has no types for its limits of headers and lines, only messages: "got more than 100 headers".
    text = str(cause)
    over_limit = isinstance(cause, HTTPException) and text.startswith("got more than ")
    return text if over_limit or isinstance(cause, MalformedError) else ""


def _describe_known(cause: BaseException) -> str:
    match cause:
        case SlowLookupError():
            return f"the name {cause.name} was not resolved within {CONNECT_SECONDS:g} s"
        case exceptions.ConnectTimeoutError() if not isinstance(cause, exceptions.NewConnectionError):
            return f"no connection within {CONNECT_SECONDS:g} s"
        case exceptions.ReadTimeoutError() | TimeoutError():
            return "no data arrived in time"
        case exceptions.IncompleteRead():
            return "the body is cut off"
        case OSError() if cause.errno is not None:
            return os.strerror(cause.errno).lower()
        case _:
            return ""


def _classify_lookup(error: socket.gaierror) -> AttemptError:
    # Not retried at once: a missing name does not appear within seconds. Transient: a cluster's DNS may still start.
    again = error.errno == socket.EAI_AGAIN
    text = "the name cannot be resolved now" if again else "no such host"
    return AttemptError(Exit.NETWORK, text, transient=True, again=again)


def _make_retryable(text: str) -> AttemptError:
    return AttemptError(Exit.NETWORK, text, transient=True, again=True)
