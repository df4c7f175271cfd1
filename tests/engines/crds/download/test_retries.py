"""Errors of urllib3, http.client and the system, as messages without their texts."""

import contextlib
import errno
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3 import exceptions

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download import dial, http_requests
from fleethook.engines.crds.download.download import download
from fleethook.engines.crds.download.retries import (
    ATTEMPTS,
    AttemptError,
    Cancellation,
    Deadline,
    MalformedError,
    SlowLookupError,
    choose_delay,
    classify_error,
    make_timeout_error,
    parse_retry_after,
)
from fleethook.engines.crds.tarball_source import Source
from fleethook.outbound.addresses import PrivateAddressError
from tests.engines.crds.downloading import BODY
from tests.engines.crds.names import naming
from tests.engines.crds.origin import Asked, Connection, head, proxying, says, serving, silent, tarball
from tests.engines.crds.socks_server import Stage, socks_proxying
from tests.waiting import NET


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other end comes before that of the test."""
    for module in (dial, http_requests):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 250.0)
    monkeypatch.setattr(http_requests, "IDLE_SECONDS", 250.0)


def cancelled(source: Source, into: Path, *, when: Callable[[], object], **rest: Any) -> None:
    """It ends at once when it is cancelled while the condition holds, and leaves nothing."""
    cancellation = Cancellation()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            download(source, into, cancellation=cancellation, **rest)
        except BaseException as error:  # noqa: BLE001 - for the assertion below
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until(when)
    assert thread.is_alive()
    cancellation.cancel()
    thread.join(NET)
    assert not thread.is_alive()
    [failure] = failures
    assert isinstance(failure, CRDsError)
    assert (failure.exit, str(failure)) == (Exit.INTERRUPTED, f"{source.url}: cancelled")
    assert failure.transient
    assert failure.__suppress_context__ or failure.__context__ is None
    assert list(into.parent.iterdir()) == []
    assert cancellation._callbacks == []


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + NET
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_before_it_begins(into: Path) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with serving(tarball(BODY)) as origin, pytest.raises(CRDsError, match="cancelled") as raised:
        download(Source(origin.url), into, cancellation=cancellation)
    assert raised.value.exit == Exit.INTERRUPTED
    assert not origin.connections
    assert not into.exists()


def test_before_it_begins_no_name_is_looked_up(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with naming(monkeypatch) as names, pytest.raises(CRDsError, match="cancelled"):
        download(Source("http://crds.test/x"), into, cancellation=cancellation)
    assert names.looked_up == []


def test_while_a_name_is_looked_up(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with naming(monkeypatch) as names:
        cancelled(Source("http://hanging.test/x"), into, when=lambda: names.hanging)


def test_while_it_waits_for_other_lookups(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = dial.Lookups(limit=1)
    monkeypatch.setattr(dial, "LOOKUPS", lookups)
    other = Cancellation()
    with naming(monkeypatch) as names, Deadline(250, other) as deadline:
        first = threading.Thread(target=_looking_up_in_vain, args=(lookups, deadline), daemon=True)
        first.start()
        until(lambda: names.hanging)
        cancelled(Source("http://crds.test/x"), into, when=lambda: len(lookups._changed._waiters) == 2)
        assert names.looked_up == ["hanging.test"]
        other.cancel()
        first.join(NET)
        assert not first.is_alive()


def _looking_up_in_vain(lookups: dial.Lookups, deadline: Deadline) -> None:
    with pytest.raises(dial.SlowLookupError):
        lookups.find("hanging.test", 80, deadline)


@contextlib.contextmanager
def _full() -> Iterator[int]:
    """Yield a port that accepts no connection: its queue is full, and the kernel drops more SYNs."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def _syns(port: int) -> int:
    """How many connections are under way to a port (/proc/net/tcp, state SYN_SENT)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[2].endswith(f":{port:04X}") and line[3] == "02" for line in lines)


def test_while_it_connects_and_no_other_address_is_tried(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        _full() as port,
        socket.create_server(("127.0.0.2", port)) as next_one,
        naming(monkeypatch, crds=["127.0.0.1", "127.0.0.2"]),
    ):
        before = _syns(port)
        cancelled(Source(f"http://crds.test:{port}/x"), into, when=lambda: _syns(port) > before)
        next_one.setblocking(False)
        with pytest.raises(BlockingIOError):
            next_one.accept()


def test_while_a_tls_handshake_hangs(into: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []

        def greeted() -> bool:
            if not taken:
                taken.append(listening.accept()[0])
            return taken[0].recv(1) == b"\x16"

        try:
            cancelled(Source(f"https://127.0.0.1:{listening.getsockname()[1]}/x"), into, when=greeted)
        finally:
            taken[0].close()


@pytest.mark.parametrize("at", ["greeting", "request"])
def test_while_a_socks_proxy_hangs(into: Path, at: Stage) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin, fault="hangs", at=at) as proxy:
        cancelled(Source(origin.url, proxy_url=proxy.url()), into, when=lambda: at in proxy.stages)


def test_while_a_tunnel_is_not_made(into: Path) -> None:
    with serving(silent) as hanging, serving(silent) as origin, proxying(origin):
        source = Source("https://crds.test/x", proxy_url=hanging.base)
        cancelled(source, into, when=lambda: hanging.asked)


@pytest.mark.parametrize("secure", [False, True])
def test_while_there_is_no_answer(into: Path, tmp_path: Path, secure: bool) -> None:
    with serving(silent, directory=tmp_path if secure else None) as origin:
        cancelled(Source(origin.url, ca_pem=origin.ca_pem), into, when=lambda: origin.asked)


@pytest.mark.parametrize("length", [len(BODY), None])
@pytest.mark.parametrize("secure", [False, True])
def test_while_the_rest_of_a_body_does_not_come(into: Path, tmp_path: Path, length: int | None, secure: bool) -> None:
    def stalls(_: Asked, answering: Connection) -> None:
        answering.send(head(content_length=length, etag='"v1"') + BODY[:5000])
        answering.pause(NET)

    told: list[int] = []
    with serving(stalls, directory=tmp_path if secure else None) as origin:
        source = Source(origin.url, ca_pem=origin.ca_pem)
        cancelled(source, into, when=lambda: sum(told), progress=lambda size, _: told.append(size))
        assert len(origin.asked) == 1


def test_between_two_attempts_and_no_mirror_is_asked(into: Path) -> None:
    with serving(tarball(BODY)) as mirror, serving(says(status="503 Busy", retry_after=100)) as origin:
        # The answer is sent, and the client has closed the connection.
        source = Source(origin.url, mirrors=(mirror.url,))
        cancelled(source, into, when=lambda: origin.bytes_sent and not origin._open)
    assert len(origin.asked) == 1
    assert not mirror.connections


def test_after_the_end_it_changes_nothing(into: Path) -> None:
    cancellation = Cancellation()
    with serving(tarball(BODY)) as origin:
        download(Source(origin.url), into, cancellation=cancellation)
    cancellation.cancel()
    assert into.read_bytes() == BODY
    assert cancellation._callbacks == []


def test_one_ends_all_downloads_that_have_it(tmp_path: Path) -> None:
    cancellation = Cancellation()
    ends: list[Exit] = []

    def run(number: int) -> None:
        with pytest.raises(CRDsError) as raised:
            download(Source(origin.url), tmp_path / str(number), cancellation=cancellation)
        ends.append(raised.value.exit)

    with serving(silent) as origin:
        threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(5)]
        for thread in threads:
            thread.start()
        until(lambda: len(origin.asked) == 5)
        cancellation.cancel()
        for thread in threads:
            thread.join(NET)
    assert ends == [Exit.INTERRUPTED] * 5
    assert list(tmp_path.iterdir()) == []


# ---- The object itself.


def test_callbacks_run_once_and_in_order_and_not_after_their_block() -> None:
    cancellation = Cancellation()
    told: list[str] = []
    with cancellation.on_cancel(lambda: told.append("a")), cancellation.on_cancel(lambda: told.append("b")):
        with cancellation.on_cancel(lambda: told.append("gone")):
            pass
        cancellation.cancel()
        cancellation.cancel()
        with cancellation.on_cancel(lambda: told.append("late")):
            pass
    assert told == ["a", "b", "late"]


def test_a_wait_that_is_not_cancelled_says_so() -> None:
    cancellation = Cancellation()
    assert not cancellation.wait(0.0)
    cancellation.cancel()
    assert cancellation.wait(1e300)


def test_a_cutoff_that_fires_is_no_cancellation() -> None:
    cancellation = Cancellation()
    with Deadline(0.0, cancellation) as deadline:
        until(lambda: deadline.cancelled)
    assert not cancellation.cancelled


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
