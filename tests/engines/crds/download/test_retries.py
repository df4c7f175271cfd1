"""Errors of urllib3, http.client and the system, as messages without their texts."""

import errno
import os
import random
import socket
import ssl
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3 import exceptions

from fleethook.engines.crds.crds_errors import Exit
from fleethook.engines.crds.download.retries import (
    ATTEMPTS,
    AttemptError,
    MalformedError,
    SlowLookupError,
    choose_delay,
    classify_error,
    make_timeout_error,
    parse_retry_after,
)
from fleethook.outbound.addresses import PrivateAddressError

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def failed(**rest: object) -> AttemptError:
    return AttemptError(Exit.NETWORK, "reset", **{"again": True, **rest})  # type: ignore[arg-type]


@given(st.integers(1, ATTEMPTS - 1), st.integers())
def test_the_wait_has_full_jitter_below_a_bound_that_doubles(attempt: int, seed: int) -> None:
    delay = choose_delay(failed(), attempt, random.Random(seed).uniform)
    assert delay is not None
    assert 0 <= delay <= min(30, 2 ** (attempt - 1))


def test_four_attempts_are_all() -> None:
    assert [choose_delay(failed(), attempt, max) for attempt in (1, 2, 3, 4)] == [1, 2, 4, None]


def test_permanent_errors_are_not_retried() -> None:
    assert choose_delay(failed(again=False), 1, max) is None


@pytest.mark.parametrize(("after", "delay"), [(0.0, 0.0), (7.0, 7.0), (120.0, 120.0), (121.0, None)])
def test_retry_after_is_believed_up_to_two_minutes(after: float, delay: float | None) -> None:
    assert choose_delay(failed(after=after), 1, max) == delay


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("17", 17),
        ("99999999999999999999", 999999999),
        ("Thu, 01 Jan 2026 12:01:30 GMT", 90),
        ("Thu, 01 Jan 2026 14:01:30 +0200", 90),
        ("Thu, 01 Jan 2026 12:01:30 -0000", 90),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("-1", None),
        ("1.5", None),
        ("\u0661", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert parse_retry_after({"Retry-After": value}, NOW) == seconds


@given(st.text())
def test_a_malformed_retry_after_is_ignored(value: str) -> None:
    found = parse_retry_after({"Retry-After": value}, NOW)
    assert found is None or found >= 0


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
        (SlowLookupError("name.example"), Exit.NETWORK, "the name name.example was not resolved within ", True, True),
        (MalformedError("a header without a colon"), Exit.HTTP,
         "malformed HTTP response: a header without a colon", True, False),
        (HTTPException("got more than 100 headers"), Exit.HTTP,
         "malformed HTTP response: got more than 100 headers", True, False),
        (exceptions.ReadTimeoutError(POOL, SECRET, SECRET), Exit.NETWORK, "no data arrived in time", True, True),
        (exceptions.ConnectTimeoutError(SECRET), Exit.NETWORK, "no connection within ", True, True),
        (exceptions.IncompleteRead(1, 2), Exit.NETWORK, "the body is cut off", True, True),
        (ConnectionResetError(errno.ECONNRESET, SECRET), Exit.NETWORK, "connection reset by peer", True, True),
        (exceptions.LocationParseError(SECRET), Exit.NETWORK, "the host is not a valid name", False, False),
        (exceptions.ProtocolError(SECRET), Exit.NETWORK,
         "the connection ended before the response was complete", True, True),
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


def test_causes_that_point_to_each_other_end() -> None:
    first, second = ValueError(SECRET), KeyError(SECRET)
    chain(first, second)
    chain(second, first)
    assert str(classify_error(first)) == "the connection failed (KeyError)"


def test_a_download_whose_time_is_over_may_be_tried_later() -> None:
    error = make_timeout_error(1.5)
    assert (error.exit, str(error), error.transient, error.again) == (
        Exit.NETWORK,
        "not done within 1.5 s",
        True,
        False,
    )


def test_the_text_of_the_system_is_that_of_the_errno() -> None:
    assert str(classify_error(OSError(errno.ENETUNREACH, SECRET))) == os.strerror(errno.ENETUNREACH).lower()
