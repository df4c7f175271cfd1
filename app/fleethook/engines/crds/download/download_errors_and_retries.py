"""The errors of an attempt to download, with texts of fleethook, and which of them are followed by another attempt.

The messages of urllib3 and http.client are not shown: they have queries of URLs and values of headers, which may be
secrets.
"""

import os
import re
import socket
import ssl
from collections.abc import Callable
from typing import Final

from urllib3 import exceptions
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.outbound.certificate_trust import UNKNOWN_AUTHORITY
from fleethook.outbound.private_addresses_and_proxies import PrivateAddressError

RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
ATTEMPTS: Final = 4
"""Attempts for one URL before the next mirror."""
# The jitter keeps a fleet of operators from retrying at the same moment.
RETRY: Final = Retry(total=ATTEMPTS - 1, backoff_factor=1, backoff_max=30, backoff_jitter=1, retry_after_max=120)
_PROXY_CREDENTIALS: Final = 407


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


# Codes of OpenSSL's x509_vfy.h with the messages of Go's crypto/x509, which users search for.
_CERTIFICATE: Final = {
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: f"{UNKNOWN_AUTHORITY} (it is self-signed)",
    **dict.fromkeys((19, 20, 21), f"{UNKNOWN_AUTHORITY} (is its CA given?)"),
    62: "certificate is not valid for this name",
    64: "certificate is not valid for this address",
}
_HINTS: Final = {
    204: ": no body; expected 200",
    304: ": not modified, in response to an unconditional request",
    401: ": it requires credentials",
    403: ": not allowed; check the credentials",
    404: ": not found; does this release have a crds.tar.gz?",
}
# The connection breaks: the network failed, not the server's TLS.
_CUT: Final = "UNEXPECTED_EOF_WHILE_READING"
# http.client has no exception type for it: OSError("Tunnel connection failed: 407 Proxy Authentication Required").
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d{3})")


def make_status_error(status: int, after: float | None) -> AttemptError:
    """Return the error for a status without a usable body; ``after`` is its Retry-After."""
    if status == _PROXY_CREDENTIALS:
        return _make_proxy_credentials_error()
    again = status in RETRIED
    text = f"HTTP {status}{_HINTS.get(status, '')}"
    return AttemptError(Exit.HTTP, text, transient=again or status >= 500, again=again, after=after if again else None)


def make_timeout_error(seconds: float) -> AttemptError:
    """Return the error for a download whose time is over."""
    return AttemptError(Exit.NETWORK, f"not done within {seconds:g} s", transient=True)


def make_retryable(text: str) -> AttemptError:
    """Return the error of a network that may work again soon."""
    return AttemptError(Exit.NETWORK, text, transient=True, again=True)


def classify_error(error: Exception) -> AttemptError:
    """Return the AttemptError for an exception of urllib3, http.client or the system, without quoting its message."""
    causes = _list_causes(error)
    proxy = "proxy: " if any(isinstance(cause, exceptions.ProxyError) for cause in causes) else ""
    found = next(filter(None, map(_classify_final, causes)), None)
    if found is not None:
        return found
    text = next(filter(None, map(_describe, causes)), f"the connection failed ({type(causes[-1]).__name__})")
    return make_retryable(f"{proxy}{text}")


def _list_causes(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes: by chain, by argument, or as urllib3 keeps the original."""
    causes: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting and len(causes) < 16:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and cause not in causes:
            causes.append(cause)
            waiting += [*cause.args, getattr(cause, "original_error", None), cause.__cause__, cause.__context__]
    return causes


def _classify_final(cause: BaseException) -> AttemptError | None:
    """Return the error for a cause that says more than a broken connection."""
    if tunnel := _TUNNEL.match(str(cause)):
        return _classify_tunnel(int(tunnel[1]))
    match cause:
        case PrivateAddressError():
            return AttemptError(Exit.NETWORK, "a private address, which this download does not allow")
        case ssl.SSLError():
            return _classify_tls(cause)
        case socket.gaierror():
            # A missing name does not appear within seconds. Transient: a cluster's DNS may still start.
            again = cause.errno == socket.EAI_AGAIN
            text = "the name cannot be resolved now" if again else "no such host"
            return AttemptError(Exit.NETWORK, text, transient=True, again=again)
        case exceptions.LocationParseError() | UnicodeError():
            return AttemptError(Exit.NETWORK, "the host is not a valid name")
        case _:
            return None


def _classify_tls(error: ssl.SSLError) -> AttemptError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return AttemptError(Exit.TLS, f"x509: {_CERTIFICATE.get(error.verify_code, 'certificate is not accepted')}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or error.reason == _CUT:
        return make_retryable("the connection ended during TLS")
    return AttemptError(Exit.TLS, f"tls: {(error.reason or 'handshake failed').replace('_', ' ').lower()}")


def _classify_tunnel(status: int) -> AttemptError:
    if status == _PROXY_CREDENTIALS:
        return _make_proxy_credentials_error()
    text = f"the proxy refused the tunnel: HTTP {status}"
    return make_retryable(text) if status in RETRIED else AttemptError(Exit.NETWORK, text)


def _make_proxy_credentials_error() -> AttemptError:
    return AttemptError(Exit.NETWORK, "the proxy requires credentials (HTTP 407): give them in the proxy URL")


def _describe(cause: BaseException) -> str:
    match cause:
        case exceptions.ConnectTimeoutError() if not isinstance(cause, exceptions.NewConnectionError):
            return "no connection in time"
        case exceptions.ReadTimeoutError() | TimeoutError():
            return "no data arrived in time"
        case exceptions.IncompleteRead():
            return "the body is cut off"
        case OSError() if cause.errno is not None:
            return os.strerror(cause.errno).lower()
        case _:
            return ""


def read_retry_after(response: BaseHTTPResponse) -> float | None:
    """Return the seconds of an origin's Retry-After; None without a valid one."""
    try:
        return RETRY.get_retry_after(response)
    except (exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def wait_before_retry(
    failure: AttemptError, retry: Retry, *, left: float, sleep: Callable[[float], object]
) -> Retry | None:
    """Wait before another attempt and return the rest of the retries; None, without waiting, to stop.

    Args:
        failure: The failure of an attempt.
        retry: The retries that are left.
        left: The seconds until the end of the download.
        sleep: Waits some seconds.
    """
    if not failure.again:
        return None
    try:
        rest = retry.increment("GET", error=exceptions.HTTPError())
    except exceptions.MaxRetryError:
        return None
    delay = rest.get_backoff_time() if failure.after is None else failure.after
    if delay >= left:
        return None
    sleep(delay)
    return rest
