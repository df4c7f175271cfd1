"""Translates errors of urllib3, http.client and the system into messages of fleethook.

The messages of urllib3 and http.client are not shown: they have queries of URLs and values of headers, which may be
secrets.
"""

import os
import socket
import ssl
from http.client import HTTPException
from typing import Final

from urllib3 import exceptions

from fleethook.engines.crds.crds_errors import Exit
from fleethook.engines.crds.download.retry import CONNECT_SECONDS, RETRIED, AttemptError
from fleethook.outbound.addresses import PrivateAddressError
from fleethook.outbound.tls.certificate_chain import UNKNOWN_AUTHORITY

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
