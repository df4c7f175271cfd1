"""Errors of urllib3, http.client and the system, as messages without their texts."""

import errno
import socket
import ssl
from typing import Any

import pytest
from urllib3 import exceptions

from fleethook.engines.crds.download.download_errors_and_retries import (
    classify_error,
    make_status_error,
    make_timeout_error,
)
from fleethook.engines.crds.redaction_and_exit_codes import Exit
from fleethook.outbound.private_addresses_and_proxies import PrivateAddressError

POOL: Any = None
SECRET = "hunter2"


def chain(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, SECRET)
    error.verify_code = code
    return error


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, SECRET)
    error.reason = reason
    return error


def proxied(text: str) -> exceptions.ProxyError:
    return exceptions.ProxyError(SECRET, OSError(text))


@pytest.mark.parametrize(
    ("error", "exit_code", "text", "is_transient", "is_retried"),
    [
        (verification(10), Exit.TLS, "x509: certificate has expired", False, False),
        (verification(62), Exit.TLS, "x509: certificate is not valid for this name", False, False),
        (verification(19), Exit.TLS, "x509: ", False, False),
        (verification(999), Exit.TLS, "x509: certificate is not accepted", False, False),
        (tls("WRONG_VERSION_NUMBER"), Exit.TLS, "tls: wrong version number", False, False),
        (tls("UNEXPECTED_EOF_WHILE_READING"), Exit.NETWORK, "the connection ended during TLS", True, True),
        (ssl.SSLEOFError(8, SECRET), Exit.NETWORK, "the connection ended during TLS", True, True),
        (exceptions.SSLError(tls("NO_CIPHERS")), Exit.TLS, "tls: no ciphers", False, False),
        (PrivateAddressError(SECRET), Exit.NETWORK, "a private address, which this download does not allow", False, False),
        (proxied("Tunnel connection failed: 407 Proxy"), Exit.NETWORK, "the proxy requires credentials", False, False),
        (proxied("Tunnel connection failed: 403 no"), Exit.NETWORK, "the proxy refused the tunnel: HTTP 403", False, False),
        (proxied("Tunnel connection failed: 503 no"), Exit.NETWORK, "the proxy refused the tunnel: HTTP 503", True, True),
        (proxied("Tunnel connection failed: x"), Exit.NETWORK, "proxy: ", True, True),
        (exceptions.ProxyError("", ConnectionRefusedError(errno.ECONNREFUSED, SECRET)), Exit.NETWORK,
         "proxy: connection refused", True, True),
        (socket.gaierror(socket.EAI_AGAIN, SECRET), Exit.NETWORK, "the name cannot be resolved now", True, True),
        (socket.gaierror(socket.EAI_NONAME, SECRET), Exit.NETWORK, "no such host", True, False),
        (exceptions.ReadTimeoutError(POOL, SECRET, SECRET), Exit.NETWORK, "no data arrived in time", True, True),
        (exceptions.ConnectTimeoutError(SECRET), Exit.NETWORK, "no connection in time", True, True),
        (exceptions.IncompleteRead(1, 2), Exit.NETWORK, "the body is cut off", True, True),
        (ConnectionResetError(errno.ECONNRESET, SECRET), Exit.NETWORK, "connection reset by peer", True, True),
        (exceptions.LocationParseError(SECRET), Exit.NETWORK, "the host is not a valid name", False, False),
        (exceptions.ProtocolError(SECRET), Exit.NETWORK, "the connection failed", True, True),
        (ValueError(SECRET), Exit.NETWORK, "the connection failed (ValueError)", True, True),
    ],
)  # fmt: skip
def test_each_error_has_a_message_and_a_verdict(
    error: Exception, exit_code: Exit, text: str, *, is_transient: bool, is_retried: bool
) -> None:
    for raised in (error, exceptions.HTTPError(SECRET, error), chain(exceptions.HTTPError(SECRET), error)):
        assert isinstance(raised, Exception)
        if text.startswith("the connection failed") and raised is not error:
            continue
        found = classify_error(raised)
        assert (found.exit, found.transient, found.again) == (exit_code, is_transient, is_retried)
        assert str(found).startswith(text)
        assert SECRET not in str(found)


def test_a_download_whose_time_is_over_may_be_tried_later() -> None:
    error = make_timeout_error(1.5)
    assert (error.exit, str(error), error.transient, error.again) == (
        Exit.NETWORK,
        "not done within 1.5 s",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("status", "transient", "again", "text"),
    [
        (404, False, False, "HTTP 404: not found; does this release have a crds.tar.gz?"),
        (503, True, True, "HTTP 503"),
        (501, True, False, "HTTP 501"),
        (407, False, False, "the proxy requires credentials (HTTP 407): give them in the proxy URL"),
    ],
)
def test_a_status_says_whether_to_try_again(status: int, text: str, *, transient: bool, again: bool) -> None:
    error = make_status_error(status, 7.0)
    assert (str(error), error.transient, error.again) == (text, transient, again)
    assert error.after == (7 if again else None)
