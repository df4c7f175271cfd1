"""Describe connection errors in the words of Go's HTTP client, which users search for."""

import socket
import ssl
from typing import Final

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from fleethook.outbound.addresses import PrivateAddressError
from fleethook.outbound.call_errors import escaped
from fleethook.outbound.tls.trust import UntrustedError

_MAX_SHOWN: Final = 300
# OpenSSL checks this in each handshake, also if it does not verify certificates.
_TLS: Final = {
    "BAD_ECC_CERT": "the key usage of its ECDSA certificate lacks digitalSignature, which OpenSSL requires with TLS "
    "1.2: allow TLS 1.3 there, or issue another certificate"
}
_UNVERIFIED: Final = "tls: failed to verify certificate"


def private_address_in(error: BaseException) -> str | None:
    """Return the private address that an error refused, None for other errors."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return cause.address if isinstance(cause, PrivateAddressError) else None


def describe_error(error: Exception, url: URL) -> str:
    """Return the description of an error in one line.

    Args:
        error: An error of aiohttp or the system.
        url: The URL of the call.
    """
    match error:
        case aiohttp.ClientConnectorError():
            return _describe_connect(error, url)
        case aiohttp.ServerDisconnectedError():
            return "EOF: it closed the connection without a response"
        case aiohttp.ClientResponseError():
            return _describe_malformed(error)
        case aiohttp.ClientPayloadError():
            return "unexpected EOF: its response is truncated or malformed"
        case _:
            return _describe_other(error)


def _describe_connect(error: aiohttp.ClientConnectorError, url: URL) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _describe_certificate(error.certificate_error, error.host)
        case aiohttp.ClientConnectorDNSError():
            return _describe_lookup(error.os_error, error.host)
        case _:
            return _describe_dial(error.os_error, url)


def _describe_certificate(error: Exception, host: str) -> str:
    if isinstance(error, UntrustedError):
        # A host may present a chain of any length, and names of any size.
        problem = str(error)[:_MAX_SHOWN].removeprefix("x509: ")
        return problem if problem.startswith("tls: ") else f"{_UNVERIFIED} of {escaped(host)}: x509: {problem}"
    return f"{_UNVERIFIED} of {escaped(host)}: x509: {_describe_other(error)}"


def _describe_lookup(error: OSError, host: str) -> str:
    unknown = isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    return f"lookup {escaped(host)}: {'no such host' if unknown else _describe_other(error)}"


def _describe_dial(error: OSError, url: URL) -> str:
    if isinstance(error, ssl.SSLError):
        reason = _TLS.get(error.reason) or (error.reason or str(error)).replace("_", " ").lower()
        return f"tls: {escaped(reason)}"
    where = f"dial tcp {escaped(url.host or '')}:{url.port}"
    if isinstance(error, ConnectionRefusedError):
        return f"{where}: connect: connection refused"
    return f"{where}: {_describe_other(error)}"


def _describe_malformed(error: aiohttp.ClientResponseError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LineTooLong):
            return "its response headers are too large"
        cause = cause.__cause__
    return f"malformed HTTP response: {escaped(' '.join(error.message.split()))[:_MAX_SHOWN]}"


def _describe_other(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        # Go prints messages of the system in lower case.
        text = error.strerror.lower()
    return escaped(text)[:_MAX_SHOWN]
