"""Errors of calls, and the log lines about them."""

import asyncio
import errno
import json
import logging
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from fleethook.outbound.call_errors_and_failure_log import (
    FailureLog,
    describe_error,
    log_loop_error,
    private_address_in,
)
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.outbound.certificate_trust import UntrustedError
from fleethook.outbound.private_addresses_and_proxies import PrivateAddressError
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import RawHook, http, respond

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
        (refusal(UntrustedError("x509: certificate has expired")), f"{TLS}certificate has expired"),
        (refusal(UntrustedError("tls: failed to parse it")), "tls: failed to parse it"),
        (refusal(tls_error("WRONG_VERSION_NUMBER")), "tls: wrong version number"),
        (
            refusal(tls_error("BAD_ECC_CERT")),
            (
                "tls: the key usage of its ECDSA certificate lacks digitalSignature, which OpenSSL requires with "
                "TLS 1.2: allow TLS 1.3 on the webhook's server, or issue another certificate"
            ),
        ),
        (aiohttp.ServerDisconnectedError(), "EOF: the server closed the connection without a response"),
        (aiohttp.ClientPayloadError(), "unexpected EOF: the response is truncated or malformed"),
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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_webhook_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FailureLog(clock=clock)
    for seconds in (0, 1, 59, 60, 61, 500):
        clock.now = seconds
        for name in ("a", "b"):
            log.note("ws2", name, f"webhook {name} breaks its connections: tls: bad record mac")
    lines = [record.getMessage() for record in caplog.records if "webhook a" in record.getMessage()]
    text = "webhook a breaks its connections: tls: bad record mac"
    assert lines == [text, f"{text} (2 more errors since the last line)", text]
    assert len(caplog.records) == 6


def test_each_owner_has_a_share_of_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FailureLog(clock=clock)
    for number in range(2_000):
        log.note("ws2", str(number), "EOF", cluster="ws2")
    assert [record.fields for record in caplog.records] == [{"cluster": "ws2"}] * 20  # type: ignore[attr-defined]
    for number in range(2_000):
        log.note(f"cluster {number}", "webhook", "EOF")
    assert len(caplog.records) == 1_000
    clock.now = 120
    log.note("ws2", "1999", "EOF")
    assert len(caplog.records) == 1_001


@pytest.mark.parametrize(
    ("context", "is_traced"),
    [
        ({"message": "Fatal error on SSL protocol", "exception": RuntimeError("closed"), "protocol": None}, False),
        ({"message": "Future exception was never retrieved", "exception": ConnectionResetError()}, False),
        ({"message": "Task exception was never retrieved", "exception": RuntimeError("a defect")}, True),
        ({"message": "Fatal error", "exception": KeyError("a defect"), "transport": None}, True),
    ],
)
async def test_only_defects_have_a_traceback(
    context: dict[str, object], caplog: pytest.LogCaptureFixture, *, is_traced: bool
) -> None:
    caplog.set_level(logging.INFO)
    log_loop_error(asyncio.get_running_loop(), context)
    assert bool(caplog.records) == is_traced


STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no,\nreally", "code": 403}


UNKNOWN = "the server responded with the status code {} but did not return more information"


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (207, b"x", UNKNOWN.format(207)),
        (304, b"", UNKNOWN.format(304)),
        (400, b"x", "the server rejected our request for an unknown reason"),
        (403, b"who are\tyou", "who are\\tyou"),
        (403, b"", UNKNOWN.format(403)),
        (404, b"x", "the server could not find the requested resource"),
        (418, b"x", UNKNOWN.format(418)),
        (429, b"", "the server has received too many requests and has asked us to try again later"),
        (500, b' a "quoted"\n ', 'an error on the server ("a \\"quoted\\"") has prevented the request from succeeding'),
        (500, b"a\nb", 'an error on the server ("a\\nb") has prevented the request from succeeding'),
        (500, b"", 'an error on the server ("unknown") has prevented the request from succeeding'),
        (502, b"\xff", 'an error on the server ("\ufffd") has prevented the request from succeeding'),
        (503, b"x", "the server is currently unable to handle the request"),
        (500, json.dumps(STATUS).encode(), "no,\\nreally"),
        (404, json.dumps(STATUS).encode(), "no,\\nreally"),
        (404, json.dumps({**STATUS, "message": 5}).encode(), "the server could not find the requested resource"),
        (404, json.dumps({**STATUS, "status": "Success"}).encode(), "the server could not find the requested resource"),
        (404, json.dumps({**STATUS, "kind": "Other"}).encode(), "the server could not find the requested resource"),
        (404, b"[" * 100_000, "the server could not find the requested resource"),
    ],
)  # fmt: skip
async def test_other_statuses_fail_with_the_messages_of_kubernetes(
    client: HookClient, hook: RawHook, status: int, body: bytes, text: str
) -> None:
    hook.answer = respond(http(body, status=f"{status} Whatever"))
    error = await catch_call_error(client, endpoint(hook))
    assert (str(error), error.code, error.timed_out) == (f"failed to call webhook: {text}", status, False)


async def test_long_errors_are_cut(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(http(b"e" * 5_000, status="500 Oops"))
    text = str(await catch_call_error(client, endpoint(hook)))
    assert text.count("e" * 2048) == 1
    assert len(text) < 2048 + 150
    hook.answer = respond(http(json.dumps({**STATUS, "message": "e" * 5_000}).encode(), status="500 Oops"))
    assert str(await catch_call_error(client, endpoint(hook))) == "failed to call webhook: " + "e" * 2048
