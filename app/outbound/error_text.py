"""What went wrong on the way to a webhook, in the words that Go's client has for it where it has some."""

import socket
import ssl
from typing import Final

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from app.outbound.addresses import PrivateAddressError
from app.outbound.errors import escaped
from app.outbound.trust import UNKNOWN_AUTHORITY, VERIFY_ERRORS

_SHOWN: Final = 300
_CERTIFICATE: Final = {**VERIFY_ERRORS, 19: f"{UNKNOWN_AUTHORITY} (its authority is none of caBundle)"}
_NAME_MISMATCH: Final = (62, 64)


def private_address_in(error: BaseException) -> str | None:
    """Return the private address that an error is about, None if it is about something else."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return cause.address if isinstance(cause, PrivateAddressError) else None


def describe_error(error: Exception, url: URL) -> str:
    """Return in one line what went wrong.

    Args:
        error: Of aiohttp or the system.
        url: What was called.
    """
    match error:
        case aiohttp.ClientConnectorError():
            return _connecting(error, url)
        case aiohttp.ServerDisconnectedError():
            return "EOF: it closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return _malformed(error)
        case aiohttp.ClientPayloadError():
            return "unexpected EOF: its answer is cut off or garbled"
        case _:
            return _shown(error)


def _connecting(error: aiohttp.ClientConnectorError, url: URL) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _certificate(error.certificate_error, error.host)
        case aiohttp.ClientConnectorDNSError():
            return _lookup(error.os_error, error.host)
        case _:
            return _dial(error.os_error, url)


def _certificate(error: Exception, host: str) -> str:
    text = _shown(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        text = _CERTIFICATE.get(error.verify_code, error.verify_message)
        if error.verify_code in _NAME_MISMATCH:
            text = f"certificate is not valid for what is called ({escaped(error.verify_message)})"
    return f"tls: failed to verify certificate of {escaped(host)}: x509: {text}"


def _lookup(error: OSError, host: str) -> str:
    unknown = isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    return f"lookup {escaped(host)}: {'no such host' if unknown else _shown(error)}"


def _dial(error: OSError, url: URL) -> str:
    if isinstance(error, ssl.SSLError):
        return f"tls: {escaped((error.reason or str(error)).replace('_', ' ').lower())}"
    where = f"dial tcp {escaped(url.host or '')}:{url.port}"
    if isinstance(error, ConnectionRefusedError):
        return f"{where}: connect: connection refused"
    return f"{where}: {_shown(error)}"


def _malformed(error: aiohttp.ClientResponseError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LineTooLong):
            return "its response headers are too large"
        cause = cause.__cause__
    return f"malformed HTTP response: {escaped(' '.join(error.message.split()))[:_SHOWN]}"


def _shown(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        # As Go has the system's words: small.
        text = error.strerror.lower()
    return escaped(text)[:_SHOWN]
