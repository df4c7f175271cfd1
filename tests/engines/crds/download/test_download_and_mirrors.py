"""Downloads: redirects, credentials, mirrors, proxies, and the check of the body."""

import gzip
import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.download.download_and_mirrors import Job, TarballFile, TransferResult, download, transfer
from fleethook.engines.crds.download.download_errors_and_retries import AttemptError
from fleethook.engines.crds.download.requests_and_connections import DownloadDeadline, Validators, parse_address
from fleethook.engines.crds.instance.source_and_secrets import Credentials, TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.downloading import BODY, fetched, refused
from tests.engines.crds.origin import Origin, chunked, proxying, redirects, says, serving, tarball
from tests.waiting import NET


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crds.tar.gz"


def test_a_finished_file_is_kept_with_its_digest(path: Path) -> None:
    with TarballFile(path, max_bytes=10) as partial:
        partial.add(b"ab")
        partial.add(b"")
        partial.add(b"cd")
        assert partial.size == 4
        assert partial.finish() == partial.sha256 == hashlib.sha256(b"abcd").hexdigest()
    assert path.read_bytes() == b"abcd"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unfinished_file_is_removed(path: Path) -> None:
    with TarballFile(path, max_bytes=10) as partial:
        partial.add(b"ab")
        assert path.exists()
    assert not path.exists()
    with TarballFile(path, max_bytes=10):
        path.unlink()


def test_a_restart_forgets_the_former_body(path: Path) -> None:
    with TarballFile(path, max_bytes=10) as partial:
        partial.restart(5)
        partial.add(b"abcde")
        partial.restart(2)
        assert partial.size == 0
        partial.add(b"xy")
        assert partial.finish() == hashlib.sha256(b"xy").hexdigest()
    assert path.read_bytes() == b"xy"


def test_the_limit_is_the_largest_size(path: Path) -> None:
    with TarballFile(path, max_bytes=4) as partial:
        partial.restart(total=4)
        partial.add(b"abcd")
        with pytest.raises(CRDsError, match="larger than the limit of 4 bytes: the body has more") as caught:
            partial.add(b"e")
        assert caught.value.exit is Exit.LIMIT
        with pytest.raises(CRDsError, match="larger than the limit of 4 bytes: 5 bytes"):
            partial.restart(total=5)
        assert (partial.size, partial.sha256) == (4, hashlib.sha256(b"abcd").hexdigest())


def test_an_existing_file_or_link_is_not_written_to(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(CRDsError, match=f"^cannot write {path}: file exists$") as caught:
            TarballFile(path, max_bytes=4)
        assert caught.value.exit is Exit.DISK
        path.unlink()
        path.write_bytes(b"kept")
    assert path.read_bytes() == b"kept"
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def partial(into: Path) -> Iterator[TarballFile]:
    with TarballFile(into, max_bytes=1 << 20) as made:
        yield made


def attempt(
    origin: Origin,
    partial: TarballFile,
    *,
    validators: Validators = Validators(),  # noqa: B008 - immutable
    **given: Any,
) -> TransferResult:
    options: dict[str, Any] = {"progress": None, "allow_private": True, "allow_hosts": ()}
    options |= {name: given.pop(name) for name in options if name in given}
    source = TarballSource(origin.url, ca_pem=origin.ca_pem, **given)
    address = parse_address(origin.url)
    assert address is not None
    with DownloadDeadline(NET) as deadline:
        job = Job(source=source, file=partial, deadline=deadline, environment={}, sleep=lambda _: None, **options)
        return transfer(job, address, validators)


def refuse(origin: Origin, partial: TarballFile, text: str, **given: Any) -> AttemptError:
    with pytest.raises(AttemptError, match=text) as raised:
        attempt(origin, partial, **given)
    return raised.value


def test_not_modified_without_a_condition_is_an_error(partial: TarballFile) -> None:
    with serving(says(status="304 Not Modified")) as origin:
        assert refuse(origin, partial, "304").exit is Exit.HTTP


def test_a_body_of_another_kind_is_refused(partial: TarballFile) -> None:
    with serving(says(b"<html>" + b"x" * 1000, content_type="text/html")) as origin:
        refuse(origin, partial, "it looks like an HTML page")


def test_a_body_without_a_length_ends_with_its_last_chunk(partial: TarballFile, into: Path) -> None:
    with serving(chunked(BODY)) as origin:
        attempt(origin, partial)
    assert into.read_bytes() == BODY


DATE = "Mon, 02 Jan 2006 15:04:05 GMT"


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
