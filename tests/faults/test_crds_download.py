"""Faulty and hostile origins and proxies of CRD tarballs."""

import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fleethook.engines.crds.download import requests_and_connections
from fleethook.engines.crds.download.download_and_mirrors import download
from fleethook.engines.crds.instance.source_and_secrets import Credentials, TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.downloading import BODY, Waits, fetched, refused
from tests.engines.crds.origin import (
    Answer,
    Asked,
    Connection,
    chunked,
    cuts_after,
    drips,
    drips_body,
    endless,
    hangs_up,
    head,
    in_turn,
    redirects,
    resets_after,
    says,
    serving,
    silent,
    tarball,
)
from tests.waiting import NET, with_patience

TAG = '"v1"'


def _sends(data: bytes) -> Answer:
    return lambda _, answering: answering.send(data)


# ---- Cut connections.


@pytest.mark.parametrize("fault", [resets_after, cuts_after])
@pytest.mark.parametrize("count", [1, 700, len(BODY) - 1])
def test_a_cut_body_is_downloaded_again(into: Path, fault: Callable[..., Answer], count: int) -> None:
    with serving(in_turn(fault(BODY, count), tarball(BODY))) as origin:
        found = fetched(origin, into)
    assert into.read_bytes() == BODY
    assert (found.attempts, found.size) == (2, len(BODY))


def test_an_unrequested_part_is_refused(into: Path) -> None:
    with serving(says(BODY, status="206 Partial Content")) as origin:
        assert "HTTP 206" in str(refused(origin, into, Exit.HTTP))


@pytest.mark.parametrize("end", [b"", b"0\r\n", b"3e8\r\n\x00", b"zz\r\n"])
def test_cut_chunks_are_retried(into: Path, end: bytes) -> None:
    with serving(in_turn(chunked(BODY, end=end), chunked(BODY))) as origin:
        # The blank line after the last chunk is all that "0\r\n" lacks: the body itself is known to be whole.
        assert fetched(origin, into).attempts == (1 if end == b"0\r\n" else 2)
    assert into.read_bytes() == BODY


def test_a_body_without_length_ends_with_its_connection(into: Path) -> None:
    with serving(says(BODY[:9000], content_length=None)) as origin:
        # The download cannot detect the cut; unpacking does.
        assert fetched(origin, into).size == 9000


def test_a_permanent_cut_is_tried_four_times(into: Path) -> None:
    waits = Waits()
    with serving(cuts_after(BODY, 5000)) as origin:
        failure = refused(origin, into, Exit.NETWORK, waits=waits)
    assert str(failure) == f"{origin.url}: the body is cut off (after 4 attempts)"
    assert failure.transient
    assert (len(origin.asked), len(waits.seconds)) == (4, 3)
    assert all(0 <= seconds <= most + 1 for seconds, most in zip(waits.seconds, (0, 2, 4), strict=True))


@pytest.mark.parametrize("answer", [hangs_up, says(b"", status="garbage"), lambda _, made: made.send(b"SSH-2.0-x\r\n")])
def test_a_malformed_answer_is_retried(into: Path, answer: Answer) -> None:
    with serving(in_turn(answer, tarball(BODY))) as origin:
        assert fetched(origin, into).attempts == 2


# ---- Statuses.


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_transient_status_is_retried(into: Path, status: int) -> None:
    with serving(in_turn(says(status=f"{status} X"), tarball(BODY))) as origin:
        assert fetched(origin, into).attempts == 2


@pytest.mark.parametrize("status", [201, 203, 204, 206, 300, 304, 305, 400, 401, 403, 404, 410, 418, 501, 505])
def test_any_other_status_is_final(into: Path, status: int) -> None:
    with serving(says(status=f"{status} X")) as origin:
        failure = refused(origin, into, Exit.HTTP)
    assert f"HTTP {status}" in str(failure)
    assert len(origin.asked) == 1
    assert failure.transient == (status >= 500)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_retry_after_is_honoured(into: Path, status: str) -> None:
    waits = Waits()
    with serving(in_turn(says(status=status, retry_after=17), tarball(BODY))) as origin:
        fetched(origin, into, waits=waits)
    assert waits.seconds == [17]


def test_a_retry_after_is_at_most_two_minutes(into: Path) -> None:
    waits = Waits()
    with serving(in_turn(says(status="503 Service Unavailable", retry_after=9999), tarball(BODY))) as origin:
        fetched(origin, into, waits=waits)
    assert waits.seconds == [120]


def test_no_wait_exceeds_the_total_time(into: Path) -> None:
    waits = Waits()
    with serving(says(status="503 Service Unavailable", retry_after=100)) as origin, serving(tarball(BODY)) as mirror:
        refused(origin, into, Exit.HTTP, waits=waits, seconds=50.0)
        assert fetched(origin, into, waits=waits, mirrors=(mirror.url,), seconds=50.0).attempts == 2
    assert waits.seconds == []


# ---- Too slow.


@pytest.mark.parametrize(
    "slow",
    [
        silent,
        drips(head(content_length=len(BODY)) + BODY, seconds=0.05),
        drips_body(BODY, seconds=0.05),
        drips_body(BODY, seconds=0.05, content_length=None),
        drips(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, seconds=0.002),
    ],
)
@pytest.mark.parametrize("secure", [False, True])
def test_a_slow_origin_has_no_more_than_the_total_time(into: Path, tmp_path: Path, slow: Answer, secure: bool) -> None:
    with serving(slow, directory=tmp_path if secure else None) as origin:

        def download(seconds: float) -> tuple[float, CRDsError]:
            origin.asked.clear()
            return seconds, refused(origin, into, Exit.NETWORK, seconds=seconds)

        seconds, failure = with_patience(download, lambda _: origin.asked)
    assert str(failure) == f"{origin.url}: not done within {seconds:g} s"
    assert failure.transient
    assert len(origin.asked) == 1


def test_a_slow_handshake_has_no_more_than_the_total_time(into: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(CRDsError) as raised:
        # The kernel accepts the connection, but no server answers.
        download(TarballSource(f"https://127.0.0.1:{listening.getsockname()[1]}/x", seconds=0.5), into)
    assert "not done within 0.5 s" in str(raised.value)


def test_a_silent_proxy_has_no_more_than_the_total_time(into: Path) -> None:
    with serving(tarball(BODY)) as origin, socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = f"http://127.0.0.1:{listening.getsockname()[1]}"
        failure = refused(origin, into, Exit.NETWORK, url="https://e.com/x", proxy_url=proxy, seconds=0.5)
    assert "not done within 0.5 s" in str(failure)


def test_an_idle_connection_is_given_up_before_the_total_time(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stalls(_: Asked, answering: Connection) -> None:
        answering.send(head(content_length=len(BODY), etag=TAG) + BODY[:5000])
        answering.pause(NET)

    with serving(silent) as origin:

        def attempts(seconds: float) -> int:
            """Fetch with an idle limit from an origin that stalls once and then sends everything."""
            monkeypatch.setattr(requests_and_connections, "IDLE_SECONDS", seconds)
            origin.asked.clear()
            origin.answer = in_turn(stalls, tarball(BODY))
            into.unlink(missing_ok=True)
            return fetched(origin, into).attempts

        assert with_patience(attempts, lambda attempts: attempts == 2) == 2
        into.unlink()
        origin.answer = silent
        monkeypatch.setattr(requests_and_connections, "IDLE_SECONDS", 0.3)
        assert "no data arrived in time" in str(refused(origin, into, Exit.NETWORK))


def test_a_mirror_does_not_get_more_time(into: Path) -> None:
    with serving(silent) as origin, serving(silent) as mirror:
        source = TarballSource(origin.url, mirrors=(mirror.url,), seconds=0.5)
        with pytest.raises(CRDsError, match=r"not done within 0\.5 s"):
            download(source, into)
    assert not mirror.asked


# ---- Too large.


def test_a_length_beyond_the_limit_is_refused_from_the_header(into: Path) -> None:
    with serving(says(b"\x1f\x8b", content_length=10 * 1024**3)) as origin:
        failure = refused(origin, into, Exit.LIMIT)
    assert str(failure) == f"{origin.url}: larger than the limit of 16777216 bytes: 10737418240 bytes"
    assert len(origin.asked) == 1


def test_a_body_without_an_end_is_stopped_at_the_limit(into: Path) -> None:
    with serving(endless) as origin:
        refused(origin, into, Exit.LIMIT, max_bytes=1_000_000)
    assert len(origin.asked) == 1
    # At most the socket buffers between the two.
    assert origin.bytes_sent < 30_000_000


def test_the_limit_itself_is_within_it(into: Path) -> None:
    with serving(chunked(BODY)) as origin:
        assert fetched(origin, into, max_bytes=len(BODY)).changed
        into.unlink()
        refused(origin, into, Exit.LIMIT, max_bytes=len(BODY) - 1)


@pytest.mark.parametrize(
    "answer",
    [
        _sends(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"),
        _sends(b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 5000 + b"\r\n"),
        says(BODY, content_length="5, 6"),
        _sends(head(transfer_encoding="chunked") + b"1" * 200_000),
    ],
)
def test_headers_beyond_the_limits_are_refused(into: Path, answer: Answer) -> None:
    with serving(answer) as origin:
        assert str(refused(origin, into, Exit.NETWORK)).startswith(f"{origin.url}: ")


def test_switching_protocols_is_final(into: Path) -> None:
    with serving(_sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")) as origin:
        assert "HTTP 101" in str(refused(origin, into, Exit.HTTP))
    assert len(origin.asked) == 1


# ---- Bodies that are no tarball.


PLAIN_TAR = b"crds/".ljust(257, b"\0") + b"ustar\x0000" + bytes(1000)


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "it looks like an HTML page"),
        (b"\xef\xbb\xbf\r\n  <HTML>" + bytes(5000), "it looks like an HTML page"),
        (PLAIN_TAR, "it looks like a plain tar"),
        (b"Hello, World!", "it begins with 48 65 6c 6c"),
        (b"\x1f", "it begins with 1f"),
        (b"", "it is empty"),
    ],
)
def test_the_error_about_a_body_that_is_no_gzip_names_its_format(into: Path, body: bytes, hint: str) -> None:
    with serving(says(body)) as origin:
        failure = refused(origin, into, Exit.ARCHIVE)
    assert f"{origin.url}: the body is not gzip: {hint}" in str(failure)
    assert len(origin.asked) == 1


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "identity", "br", "gzip, gzip"])
def test_a_content_encoding_on_a_gzip_body_changes_nothing(into: Path, encoding: str) -> None:
    with serving(says(BODY, content_encoding=encoding)) as origin:
        fetched(origin, into)
    assert into.read_bytes() == BODY


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip"])
def test_a_content_encoding_around_anything_else_is_refused(into: Path, encoding: str) -> None:
    with serving(says(PLAIN_TAR, content_encoding=encoding)) as origin:
        assert "it has a Content-Encoding" in str(refused(origin, into, Exit.ARCHIVE))


def test_a_body_that_is_no_gzip_is_not_read_to_its_end(into: Path) -> None:
    def page(_: Asked, answering: Connection) -> None:
        answering.send(head() + b"<html>")
        while not answering.server.stopped.is_set():
            answering.send(bytes(65536))

    with serving(page) as origin:
        refused(origin, into, Exit.ARCHIVE)


def test_another_digest_is_an_integrity_error(into: Path) -> None:
    with serving(tarball(BODY)) as origin:
        failure = refused(origin, into, Exit.INTEGRITY, sha256="0" * 64)
    assert f"but should be {'0' * 64}" in str(failure)
    assert not failure.transient
    assert len(origin.asked) == 1


# ---- Disks, secrets, and concurrency.


def test_a_full_disk_is_reported_and_leaves_no_file(into: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with serving(tarball(BODY)) as origin:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(CRDsError) as raised:
                fetched(origin, into)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.exit == Exit.DISK
    # The disk may have room later.
    assert raised.value.transient
    assert "file too large" in str(raised.value)
    assert not into.exists()


FAULTS = {
    "404": says(status="404 Not Found"),
    "503": says(status="503 Service Unavailable"),
    "cut": cuts_after(BODY, 5000),
    "reset": resets_after(BODY, 10),
    "hangs up": hangs_up,
    "html": says(b"<html>"),
    "garbage": says(status="garbage"),
    "redirect": redirects("ftp://u:S3CR3T@e.com/?token=S3CR3T"),
    "loop": redirects("/x?token=S3CR3T"),
    "length": says(BODY, content_length="5, 6"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_shows_a_secret(into: Path, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    credentials = Credentials(headers=(("X-Token", "S3CR3T"),), username="S3CR3T", password="S3CR3T")
    with serving(FAULTS[fault]) as origin:
        url = origin.url.replace("//", "//u:S3CR3T@") + "?token=S3CR3T"
        with pytest.raises(CRDsError) as raised:
            fetched(origin, into, url=url, credentials=credentials, mirrors=(url,))
    error: BaseException | None = raised.value
    while error is not None:
        assert "S3CR3T" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert "S3CR3T" not in caplog.text


def test_concurrent_downloads_are_independent(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            fetched(origin, tmp_path / f"{number}.tar.gz")
        except BaseException as error:  # noqa: BLE001 - for the assertion below
            failures.append(error)

    with serving(tarball(BODY), directory=tmp_path) as origin:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(NET)
    assert failures == []
    assert {path.read_bytes() for path in tmp_path.glob("*.tar.gz")} == {BODY}
