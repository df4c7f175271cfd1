import gzip
import hashlib
import socket
import stat
import threading
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.tarball_fetch import Fetched, Validators, download
from fleethook.engines.crds.tarball_source import CRDsError, Credentials, Exit, TarballSource
from tests.engines.crds.downloading import BODY, fetched, refused
from tests.engines.crds.fetching import ALWAYS, IF_NOT_PRESENT, NEVER, bring
from tests.engines.crds.origin import Origin, hangs_up, head, proxying, redirects, says, serving, tarball
from tests.engines.crds.tarballs import build, release, small

OLD, NEW = build(small()), release(properties=2)
WORKS = "crds/bases/work/work.karmada.io_works.yaml"
DATE = "Mon, 02 Jan 2006 15:04:05 GMT"


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


SHA256 = hashlib.sha256(BODY).hexdigest()


def test_the_bytes_come_as_they_are(into: Path) -> None:
    with serving(tarball(BODY)) as origin:
        found = fetched(origin, into)
    assert found == (True, SHA256, len(BODY), Validators('"v1"', DATE), origin.url, 1)
    assert into.read_bytes() == BODY
    assert stat.S_IMODE(into.stat().st_mode) == 0o600
    assert len(origin.asked) == origin.connections == 1


def test_validators_that_cannot_be_sent_are_left_out(into: Path) -> None:
    with serving(tarball(BODY)) as origin:
        assert fetched(origin, into, validators=Validators('"a\r\nX: y"', "\u20ac")).changed
    assert not {"if-none-match", "if-modified-since", "x"} & set(origin.asked[0].headers)


def test_conditions_go_along_redirects(into: Path) -> None:
    with serving(tarball(BODY)) as store, serving(redirects(store.url)) as origin:
        assert not fetched(origin, into, validators=Validators('"v1"')).changed


def test_an_exception_of_progress_ends_the_download_and_leaves_no_file(into: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with serving(tarball(BODY)) as origin, pytest.raises(KeyboardInterrupt):
        fetched(origin, into, progress=interrupted)
    assert not into.exists()


@pytest.mark.parametrize("spelling", [SHA256, SHA256.upper(), f" {SHA256}\n"])
def test_a_pinned_digest_that_fits_is_fine(into: Path, spelling: str) -> None:
    with serving(tarball(BODY)) as origin:
        assert fetched(origin, into, sha256=spelling).sha256 == SHA256


@pytest.mark.parametrize(
    "url", ["not-found-url", "ftp://e.com/x", "file:///etc/passwd", "/x", "http:///x", "http://[", ""]
)
def test_an_address_that_cannot_be_asked_is_a_usage_error(into: Path, url: str) -> None:
    with pytest.raises(CRDsError, match="http or https") as raised:
        download(TarballSource(url), into)
    assert raised.value.exit == Exit.USAGE
    assert not into.exists()


# ---- Who asks.


@pytest.mark.parametrize(
    ("credentials", "authorization"),
    [
        (Credentials(username="u", password="p:w"), "Basic dTpwOnc="),
        (Credentials(username="ü"), "Basic w7w6"),
        (Credentials(headers=(("Authorization", "Bearer t"),)), "Bearer t"),
        (Credentials(headers=(("authorization", "Bearer t"),), username="u"), "Bearer t"),
    ],
)
def test_credentials_are_sent_to_their_origin(into: Path, credentials: Credentials, authorization: str) -> None:
    with serving(tarball(BODY)) as origin:
        fetched(origin, into, credentials=credentials)
    assert origin.asked[0].headers["authorization"] == authorization


def test_userinfo_is_basic_authentication_and_not_shown(into: Path) -> None:
    with serving(tarball(BODY)) as origin:
        found = fetched(origin, into, url=origin.url.replace("//", "//u:s%40cret@"))
    assert origin.asked[0].headers["authorization"] == "Basic dTpzQGNyZXQ="
    assert found.final_url == origin.url


SECRET = Credentials(headers=(("X-Token", "S3CR3T"),), username="u", password="S3CR3T")


def test_credentials_stay_within_their_origin(into: Path) -> None:
    with serving(redirects("/other"), other=tarball(BODY)) as origin:
        fetched(origin, into, credentials=SECRET)
    assert [asked.headers.get("x-token") for asked in origin.asked] == ["S3CR3T", "S3CR3T"]


def test_credentials_are_dropped_where_the_origin_changes_and_do_not_come_back(into: Path) -> None:
    with serving(tarball(BODY)) as store, serving(redirects(store.base + "/back"), final=tarball(BODY)) as origin:
        store.paths["/back"] = redirects(origin.base + "/final")
        fetched(origin, into, credentials=SECRET)
    assert "x-token" in origin.asked[0].headers
    assert "authorization" in origin.asked[0].headers
    for asked in (store.asked[0], origin.asked[1]):
        assert not {"x-token", "authorization"} & set(asked.headers)


def test_a_mirror_elsewhere_gets_its_own_userinfo_only(into: Path) -> None:
    with serving(tarball(BODY)) as mirror, serving(says(status="404 Not Found")) as origin:
        fetched(origin, into, credentials=SECRET, mirrors=(mirror.url.replace("//", "//m:m@"),))
    assert mirror.asked[0].headers["authorization"] == "Basic bTpt"
    assert "x-token" not in mirror.asked[0].headers


@pytest.mark.parametrize(
    "header", [("X-Token", "S3CR3T\r\nHost: x"), ("X Token", "S3CR3T"), ("X-Token", "S3CR3T\u20ac")]
)
def test_a_header_that_cannot_be_sent_is_refused_unshown(into: Path, header: tuple[str, str]) -> None:
    with serving(tarball(BODY)) as origin:
        failure = refused(origin, into, Exit.USAGE, credentials=Credentials(headers=(header,)))
    assert "S3CR3T" not in str(failure)
    assert not origin.asked


# ---- Redirects and mirrors.


def test_the_final_url_is_redacted(into: Path) -> None:
    with serving(tarball(BODY)) as store, serving(redirects(f"{store.base}/blob?sig=S3CR3T&v=1")) as origin:
        found = fetched(origin, into)
    assert found.final_url == f"{store.base}/blob?sig=***&v=1"
    assert store.asked[0].target == "/blob?sig=S3CR3T&v=1"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_every_kind_of_redirect_is_followed(into: Path, status: str) -> None:
    with serving(redirects("/next", status), next=tarball(BODY)) as origin:
        assert fetched(origin, into).attempts == 1


def test_five_redirects_are_followed_and_no_more(into: Path) -> None:
    hops = {f"h{n}": redirects(f"/h{n + 1}") for n in range(1, 6)}
    with serving(redirects("/h2"), **hops, h6=tarball(BODY)) as origin:
        assert fetched(origin, into).changed
        into.unlink()
        origin.answer = redirects("/h1")
        assert "more than 5 redirects" in str(refused(origin, into, Exit.HTTP))


def test_a_mirror_is_asked_when_the_address_itself_fails(into: Path) -> None:
    with serving(tarball(BODY)) as mirror, serving(says(status="404 Not Found")) as origin:
        found = fetched(origin, into, mirrors=(f"{origin.base}/second", mirror.url), validators=Validators('"v1"'))
    assert found == (True, SHA256, len(BODY), Validators(), mirror.url, 3)
    assert [asked.path for asked in origin.asked] == ["/crds.tar.gz", "/second"]
    # An ETag is one address's.
    assert "if-none-match" not in mirror.asked[0].headers


def test_a_mirror_replaces_a_tarball_with_a_wrong_digest(into: Path) -> None:
    with serving(tarball(BODY)) as mirror, serving(tarball(gzip.compress(b"other"))) as origin:
        found = fetched(origin, into, mirrors=(mirror.url,), sha256=SHA256)
    assert (found.final_url, into.read_bytes()) == (mirror.url, BODY)


def test_all_addresses_that_failed_are_in_the_error(into: Path) -> None:
    with serving(says(status="404 Not Found"), second=says(status="410 Gone")) as origin:
        failure = refused(origin, into, Exit.HTTP, mirrors=(f"{origin.base}/second?token=S3CR3T",))
    assert str(failure) == (
        f"{origin.url}: HTTP 404: not found; does this release have a crds.tar.gz?; "
        f"mirror {origin.base}/second?token=***: HTTP 410"
    )


# ---- Proxies.


def test_a_plain_address_is_asked_through_a_proxy(into: Path) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin) as proxy:
        fetched(origin, into, url="http://crds.example.com/x?a=b", proxy_url=proxy.url)
    assert [asked.target for asked in proxy.asked] == ["http://crds.example.com/x?a=b"]
    assert into.read_bytes() == BODY


def test_a_secure_address_is_tunnelled_and_its_certificate_checked(into: Path, tmp_path: Path) -> None:
    with serving(tarball(BODY), directory=tmp_path) as origin, proxying(origin, credentials="u:S3CR3T") as proxy:
        fetched(origin, into, proxy_url=proxy.url, credentials=SECRET)
        into.unlink()
        url = f"https://other.example.com:{origin.port}/x"
        failure = refused(origin, into, Exit.TLS, url=url, proxy_url=proxy.url)
    assert (proxy.asked[0].method, proxy.asked[0].target) == ("CONNECT", f"127.0.0.1:{origin.port}")
    assert "x-token" not in proxy.asked[0].headers
    assert "proxy-authorization" not in origin.asked[0].headers
    assert str(failure) == f"{url}: x509: certificate is not valid for this name"


def test_a_proxy_may_be_spoken_to_over_tls(into: Path, tmp_path: Path) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin, directory=tmp_path) as proxy:
        fetched(origin, into, url="http://crds.example.com/x", proxy_url=proxy.url, ca_pem=proxy.ca_pem)
    assert len(proxy.asked) == 1


def test_a_proxy_of_the_environment_is_used_unless_disabled(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("HTTP_PROXY", raising=False)
        fetched(origin, into, url="http://crds.invalid/x")
        into.unlink()
        refused(origin, into, Exit.NETWORK, url="http://crds.invalid/x", env_proxies=False)
    assert len(proxy.asked) == 1


def test_an_address_without_proxy_is_asked_directly(into: Path) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin) as proxy:
        fetched(origin, into, proxy_url=proxy.url, no_proxy=("127.0.0.0/8",))
    assert not proxy.asked


# ---- Where it may go.


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001", "2130706433"])
def test_a_private_address_is_not_dialled_unless_allowed(into: Path, host: str) -> None:
    with serving(tarball(BODY)) as origin:
        url = f"http://{host}:{origin.port}/x"
        failure = refused(origin, into, Exit.NETWORK, url=url, allow_private=False)
    assert "a private address, which this download does not allow" in str(failure)
    assert not origin.connections
    assert not failure.transient


def test_nor_behind_a_proxy_of_the_environment(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        refused(origin, into, Exit.NETWORK, url="http://169.254.169.254/x", allow_private=False)
        assert not proxy.connections
        # The proxy itself is the administrator's choice.
        assert fetched(origin, into, url="http://crds.example.com/x", allow_private=False).changed


def test_only_hosts_that_are_allowed_are_asked(into: Path) -> None:
    with serving(tarball(BODY)) as store, serving(redirects(f"http://localhost:{store.port}/x")) as origin:
        failure = refused(origin, into, Exit.NETWORK, allow_hosts=("127.0.0.1",))
        assert str(failure) == f"http://localhost:{store.port}/x: its host is not one of the allowed hosts"
        assert not store.connections
        assert fetched(origin, into, allow_hosts=("127.0.0.1", "LocalHost")).changed


# ---- Over and over.
