"""Descriptions of connection errors; tests/faults/test_webhook_locations.py and test_webhook_transport.py cause real ones."""

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from fleethook.outbound.addresses import PrivateAddressError
from fleethook.outbound.error_text import describe_error, private_address_in
from fleethook.outbound.tls.trust import HeavyError, UntrustedError

KEY = ConnectionKey("h", 443, True, True, None, None, None)
HOOK = URL("https://h/p")
TLS = "tls: failed to verify certificate of h: x509: "


def connecting(error: OSError) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(KEY, error)


def refusal(error: ssl.SSLError) -> aiohttp.ClientConnectorError:
    kind = aiohttp.ClientConnectorCertificateError if isinstance(error, ssl.CertificateError) else None
    return (kind or aiohttp.ClientConnectorSSLError)(KEY, error)


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (connecting(ConnectionRefusedError(errno.ECONNREFUSED, "x")), "dial tcp h:443: connect: connection refused"),
        (connecting(OSError(errno.ENETUNREACH, "Network is unreachable")), "dial tcp h:443: network is unreachable"),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(socket.EAI_NONAME, "x")), "lookup h: no such host"),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(errno.ENOBUFS, "Too many")), "lookup h: too many"),
        (refusal(UntrustedError(1, "x509: certificate has expired")), f"{TLS}certificate has expired"),
        (refusal(UntrustedError(1, "tls: failed to parse it")), "tls: failed to parse it"),
        (refusal(HeavyError([])), f"{TLS}the server presents many certificates, and others on each connection"),
        (refusal(tls_error("WRONG_VERSION_NUMBER")), "tls: wrong version number"),
        (
            refusal(tls_error("BAD_ECC_CERT")),
            (
                "tls: the key usage of its ECDSA certificate lacks digitalSignature, which OpenSSL requires with "
                "TLS 1.2: allow TLS 1.3 there, or issue another certificate"
            ),
        ),
        (aiohttp.ServerDisconnectedError(), "EOF: it closed the connection without a response"),
        (aiohttp.ClientPayloadError(), "unexpected EOF: its response is truncated or malformed"),
        (OSError(errno.EPIPE, "Broken\npipe"), r"broken\npipe"),
        (ValueError("x" * 1000), "x" * 300),
        (ValueError(), "ValueError"),
    ],
)
def test_errors_have_the_words_of_go(error: Exception, text: str) -> None:
    assert describe_error(error, HOOK) == text


def test_the_refused_private_address_is_found() -> None:
    error = PrivateAddressError("10.0.0.1")
    assert private_address_in(connecting(error)) == "10.0.0.1"
    assert private_address_in(error) == "10.0.0.1"
    assert private_address_in(connecting(OSError())) is None
