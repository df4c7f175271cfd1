import hashlib
import socket
import threading
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.fetching import ALWAYS, IF_NOT_PRESENT, NEVER, bring
from tests.engines.crds.origin import Origin, hangs_up, head, says, serving, tarball
from tests.engines.crds.tarballs import build, release, small

OLD, NEW = build(small()), release(properties=2)
DATE = "Mon, 02 Jan 2006 15:04:05 GMT"
WORKS = "crds/bases/work/work.karmada.io_works.yaml"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "data")


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def down(origin: Origin) -> None:
    origin.answer = hangs_up


def failure(cache: Cache, source: TarballSource | str, *args: object, **more: object) -> CRDsError:
    with pytest.raises(CRDsError) as caught:
        bring(cache, source, *args, **more)  # type: ignore[arg-type]
    return caught.value


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


def test_a_cold_cache_downloads_and_reports_the_details(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        got = bring(cache, origin.url)
        assert got == Fetched(
            "downloaded", TarballSource(origin.url).key, cache.path(TarballSource(origin.url).key), sha(OLD), len(OLD), origin.url,
            origin.url, '"v1"', 1, got.seconds, (),
        )  # fmt: skip
        assert len(origin.asked) == 1
    assert (got.path / WORKS).read_bytes() == small()[WORKS]


def test_a_hit_opens_no_socket(cache: Cache, request: pytest.FixtureRequest) -> None:
    with serving(tarball(OLD)) as origin:
        first = bring(cache, origin.url)
    request.getfixturevalue("no_sockets")
    second = bring(cache, origin.url)
    assert (second.result, second.attempts, second.path) == ("cached", 0, first.path)


def test_a_damaged_tarball_counts_as_absent(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        path = bring(cache, origin.url).path
        (path / TARBALL).write_bytes(OLD[:-1] + b"x")
        assert bring(cache, origin.url).result == "downloaded"
        assert len(origin.asked) == 2
    assert cache.entry(path.name) is not None


def test_many_threads_of_a_cold_cache_end_with_one_complete_entry(cache: Cache) -> None:
    results: list[str] = []
    with serving(tarball(OLD)) as origin:
        threads = [
            threading.Thread(target=lambda: results.append(bring(cache, origin.url).result)) for _ in range(10)
        ]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bring(cache, origin.url, NEVER).sha256 == sha(OLD)
    assert set(results) <= {"cached", "downloaded"}
    assert len(results) == 10


def test_always_and_unchanged_is_one_request_and_no_body(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        first = bring(cache, origin.url, ALWAYS)
        sent, tree = origin.bytes_sent, (first.path / "crds").stat()
        second = bring(cache, origin.url, ALWAYS)
        assert (first.result, second.result) == ("downloaded", "revalidated")
        assert len(origin.asked) == 2
        assert origin.bytes_sent - sent == len(head("304 Not Modified", etag='"v1"', last_modified=DATE))
        asked = origin.asked[1].headers
        assert (asked["if-none-match"], asked["accept-encoding"]) == ('"v1"', "identity")
    assert (first.path / "crds").stat().st_ino == tree.st_ino
    assert second.etag == '"v1"'


def test_an_answer_without_validators_keeps_those_that_were_known(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        bring(cache, origin.url, ALWAYS)
        origin.answer = says(status="304 Not Modified")
        assert bring(cache, origin.url, ALWAYS).etag == '"v1"'


def test_always_replaces_a_changed_tarball(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        bring(cache, origin.url, ALWAYS)
        origin.answer = tarball(NEW, etag='"v2"')
        got = bring(cache, origin.url, ALWAYS)
    assert (got.result, got.sha256) == ("downloaded", sha(NEW))
    assert cache.entry(got.key) is not None


@pytest.mark.parametrize("answer", [says(status="503 Service Unavailable"), hangs_up], ids=["503", "hangs-up"])
def test_stale_if_error_serves_the_entry_with_a_warning(cache: Cache, answer: object) -> None:
    with serving(tarball(OLD)) as origin:
        bring(cache, origin.url)
        origin.answer = answer  # type: ignore[assignment]
        got = bring(cache, origin.url, ALWAYS, stale_if_error=True)
    assert (got.result, got.sha256, len(got.warnings)) == ("stale", sha(OLD), 1)
    assert "using the entry last confirmed at 20" in got.warnings[0]


@pytest.mark.parametrize(
    ("answer", "code"),
    [(says(status="404 Not Found"), Exit.HTTP), (tarball(OLD[:-3], etag='"v2"'), Exit.INTEGRITY)],
    ids=["404", "cut"],
)
def test_a_permanent_error_does_not_fall_back_to_a_stale_entry(cache: Cache, answer: object, code: Exit) -> None:
    with serving(tarball(OLD)) as origin:
        key = bring(cache, origin.url).key
        origin.answer = answer  # type: ignore[assignment]
        assert failure(cache, origin.url, ALWAYS, stale_if_error=True).exit is code
    assert cache.entry(key) is not None


def test_another_digest_than_the_pinned_one_is_fetched_anew(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        bring(cache, origin.url)
        origin.answer = tarball(NEW)
        got = bring(cache, TarballSource(origin.url, sha256=sha(NEW).upper()))
        assert (got.result, got.sha256) == ("downloaded", sha(NEW))
        assert "if-none-match" not in origin.asked[1].headers
        assert bring(cache, TarballSource(origin.url, sha256=sha(NEW))).result == "cached"
        assert len(origin.asked) == 2


@pytest.mark.parametrize("policy", [ALWAYS, IF_NOT_PRESENT])
def test_a_download_that_is_not_the_pinned_one_is_never_committed(cache: Cache, policy: object) -> None:
    with serving(tarball(OLD)) as origin:
        first = bring(cache, origin.url)
        origin.answer = tarball(NEW, etag='"v2"')
        source = TarballSource(origin.url, sha256="0" * 64)
        assert failure(cache, source, policy, stale_if_error=True).exit is Exit.INTEGRITY
    entry = cache.entry(first.key)
    assert entry is not None
    assert entry.record.sha256 == sha(OLD)


def test_an_entry_that_is_not_the_pinned_one_is_not_served_stale(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        bring(cache, origin.url)
        down(origin)
        source = TarballSource(origin.url, sha256=sha(NEW))
        assert failure(cache, source, ALWAYS, stale_if_error=True).exit is Exit.NETWORK
        assert failure(cache, source, IF_NOT_PRESENT, stale_if_error=True).exit is Exit.NETWORK


def test_never_with_another_digest_than_the_pinned_one_fails(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        bring(cache, origin.url)
        error = failure(cache, TarballSource(origin.url, sha256="0" * 64), NEVER)
        assert len(origin.asked) == 1
    assert error.exit is Exit.INTEGRITY
    assert sha(OLD) in str(error)


def test_strict_refuses_warnings_before_and_after_caching(cache: Cache) -> None:
    odd = build({**small(), "crds/bases/work/odd.yml": b"a: b\n"})
    with serving(tarball(odd)) as origin:
        assert failure(cache, origin.url, strict=True).exit is Exit.ARCHIVE
        warned = bring(cache, origin.url)
        assert len(warned.warnings) == 1
        assert bring(cache, origin.url).warnings == warned.warnings
        assert failure(cache, origin.url, strict=True).exit is Exit.ARCHIVE


def test_secrets_of_the_address_are_not_on_disk(cache: Cache) -> None:
    with serving(tarball(OLD)) as origin:
        url = origin.url.replace("://", "://user:hunter2@") + "?token=hunter3"
        got = bring(cache, url)
    everything = b"".join(path.read_bytes() for path in cache.directory.rglob("*") if path.is_file())
    assert b"hunter" not in everything + repr(got).encode()


# ---- Who asks.


# ---- Redirects and mirrors.


# ---- Proxies.


# ---- Where it may go.


# ---- Over and over.
