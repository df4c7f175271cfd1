"""One attempt: redirects, credentials, resumption, and the check of the body."""

import errno
import hashlib
import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleethook.cluster.certificates.certificate_authority import issue_serving, new_authority
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.http_requests import REDIRECTS, Validators, parse_address
from fleethook.engines.crds.download.retries import AttemptError, Cancellation, Timing
from fleethook.engines.crds.download.transfer import Job, Partial, Received, build_tls_context, transfer
from fleethook.engines.crds.tarball_source import Credentials, Source
from tests.engines.crds.downloading import BODY
from tests.engines.crds.origin import Origin, chunked, cuts_after, in_turn, redirects, says, serving, tarball
from tests.waiting import NET


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crds.tar.gz"


def test_a_finished_file_is_kept_with_its_digest(path: Path) -> None:
    with Partial(path, max_bytes=10) as partial:
        partial.add(b"ab")
        partial.add(b"")
        partial.add(b"cd")
        assert (partial.size, partial.read_beginning(3), partial.read_beginning(9)) == (4, b"abc", b"abcd")
        assert partial.finish() == partial.sha256 == hashlib.sha256(b"abcd").hexdigest()
    assert path.read_bytes() == b"abcd"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unfinished_file_is_removed(path: Path) -> None:
    with Partial(path, max_bytes=10) as partial:
        partial.add(b"ab")
        assert path.exists()
    assert not path.exists()
    with Partial(path, max_bytes=10):
        path.unlink()


def test_a_restart_forgets_the_former_body(path: Path) -> None:
    with Partial(path, max_bytes=10) as partial:
        partial.restart('"first"', 5)
        partial.add(b"abcde")
        partial.restart('"second"', 2)
        assert (partial.size, partial.etag, partial.total) == (0, '"second"', 2)
        partial.add(b"xy")
        assert partial.finish() == hashlib.sha256(b"xy").hexdigest()
    assert path.read_bytes() == b"xy"


def test_the_limit_is_the_largest_size(path: Path) -> None:
    with Partial(path, max_bytes=4) as partial:
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
            Partial(path, max_bytes=4)
        assert caught.value.exit is Exit.DISK
        path.unlink()
        path.write_bytes(b"kept")
    assert path.read_bytes() == b"kept"
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_has_a_remedy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with Partial(path, max_bytes=4) as partial:
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(CRDsError, match="make room or use another cache directory") as caught:
            partial.add(b"a")
    assert (caught.value.exit, caught.value.transient) == (Exit.DISK, True)
    assert not path.exists()


NOW = datetime.now(UTC)
AUTHORITY = new_authority(now=NOW)
PAIR = issue_serving(AUTHORITY, names=["origin.example.org"], now=NOW)


def issue_client() -> tuple[bytes, bytes]:
    """Return the certificate and the key of a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")]))
        .issuer_name(AUTHORITY.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    authority = load_pem_private_key(AUTHORITY.key_pem, None)
    certificate = builder.sign(authority, hashes.SHA256())  # type: ignore[arg-type]
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), plain


CLIENT, CLIENT_KEY = issue_client()
KNOWN = Credentials(client_certificate_pem=CLIENT, client_key_pem=CLIENT_KEY)
URL = "https://origin.example.org/crds.tar.gz"


def shake_hands(client: ssl.SSLContext, directory: Path) -> bytes | None:
    """Return the certificate that a client presents to a server of the authority, by a handshake in memory."""
    for name, text in (("crt", PAIR.certificate_pem), ("key", PAIR.key_pem), ("ca", AUTHORITY.certificate_pem)):
        (directory / name).write_bytes(text)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "crt", directory / "key")
    server.load_verify_locations(directory / "ca")
    server.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="origin.example.org")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (ours, theirs):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    return theirs.getpeercert(binary_form=True)


def test_only_the_given_authorities_are_trusted(tmp_path: Path) -> None:
    other = new_authority(now=NOW).certificate_pem
    assert (
        shake_hands(build_tls_context(Source(URL, ca_pem=AUTHORITY.certificate_pem), identified=False), tmp_path)
        is None
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(build_tls_context(Source(URL, ca_pem=other), identified=False), tmp_path)


@pytest.mark.parametrize("identified", [False, True])
def test_the_client_certificate_is_presented_to_the_origin_only(tmp_path: Path, identified: bool) -> None:
    source = Source(URL, ca_pem=AUTHORITY.certificate_pem, credentials=KNOWN)
    shown = shake_hands(build_tls_context(source, identified=identified), tmp_path)
    assert shown == (ssl.PEM_cert_to_DER_cert(CLIENT.decode()) if identified else None)


def test_names_and_certificates_are_verified() -> None:
    context = build_tls_context(Source(URL), identified=False)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ca_pem": b"no certificate"}, "the CA bundle has no PEM certificate"),
        ({"credentials": KNOWN._replace(client_key_pem=b"")}, "key"),
        ({"credentials": KNOWN._replace(client_key_pem=AUTHORITY.key_pem)}, "key"),
        ({"credentials": KNOWN._replace(client_certificate_pem=b"nothing")}, "certificate"),
    ],
)
def test_unusable_files_are_a_usage_error_without_their_content(changes: dict[str, object], text: str) -> None:
    source = Source(URL)._replace(**changes)  # type: ignore[arg-type]
    with pytest.raises(CRDsError, match=text) as raised:
        build_tls_context(source, identified=True)
    assert raised.value.exit is Exit.USAGE
    assert "BEGIN" not in str(raised.value)


BASIC = Credentials(username="user", password="pass")
TAGS = Validators('"v1"', "Mon, 02 Jan 2006 15:04:05 GMT")


@pytest.fixture
def partial(into: Path) -> Iterator[Partial]:
    with Partial(into, max_bytes=1 << 20) as made:
        yield made


def attempt(origin: Origin, partial: Partial, *, validators: Validators = Validators(), **given: Any) -> Received:  # noqa: B008 - immutable
    options = {
        name: given.pop(name) for name in ("allow_private", "allow_hosts", "progress", "cancellation") if name in given
    }
    source = Source(origin.url, ca_pem=origin.ca_pem, **given)
    address = parse_address(origin.url)
    assert address is not None
    timing = Timing(clock=lambda: 0.0)
    job = Job(source, partial, NET, timing, options.pop("cancellation", Cancellation()), **options)
    return transfer(job, address, validators)


def refuse(origin: Origin, partial: Partial, text: str, **given: Any) -> AttemptError:
    with pytest.raises(AttemptError, match=text) as raised:
        attempt(origin, partial, **given)
    return raised.value


def test_the_body_is_written_with_its_validators(partial: Partial, into: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with serving(tarball(BODY)) as origin:
        found = attempt(origin, partial, progress=lambda done, total: seen.append((done, total)))
    assert found == Received(changed=True, validators=TAGS, url=origin.url)
    assert into.read_bytes() == BODY
    assert (partial.size, partial.total, partial.etag) == (len(BODY), len(BODY), '"v1"')
    assert seen[-1] == (len(BODY), len(BODY))


def test_known_validators_save_the_body_and_are_kept(partial: Partial) -> None:
    with serving(tarball(BODY, last_modified=None)) as origin:
        found = attempt(origin, partial, validators=TAGS)
    assert found == Received(changed=False, validators=TAGS, url=origin.url)
    assert partial.size == 0


def test_not_modified_without_a_condition_is_an_error(partial: Partial) -> None:
    with serving(says(status="304 Not Modified")) as origin:
        assert refuse(origin, partial, "304").exit is Exit.HTTP


def test_a_part_is_resumed(partial: Partial, into: Path) -> None:
    with serving(in_turn(cuts_after(BODY, 70_000, etag='"v1"', accept_ranges="bytes"), tarball(BODY))) as origin:
        assert refuse(origin, partial, "cut off|broken|Incomplete").again
        received = partial.size
        assert 0 < received < len(BODY)
        attempt(origin, partial)
    assert origin.asked[1].headers["range"] == f"bytes={received}-"
    assert origin.asked[1].headers["if-range"] == '"v1"'
    assert hashlib.sha256(into.read_bytes()).digest() == hashlib.sha256(BODY).digest()


@pytest.mark.parametrize(
    "answer",
    [says(status="416 Range Not Satisfiable"), says(b"xx", status="206 Partial Content", content_range="bytes 5-6/9")],
)
def test_a_part_that_cannot_be_resumed_starts_again(partial: Partial, answer: Any) -> None:
    with serving(in_turn(cuts_after(BODY, 70_000, etag='"v1"', accept_ranges="bytes"), answer)) as origin:
        refuse(origin, partial, origin.url)
        failure = refuse(origin, partial, "the origin cannot resume the download")
    assert (failure.again, failure.transient, partial.size) == (True, True, 0)


def test_an_origin_without_ranges_is_not_asked_for_one(partial: Partial) -> None:
    with serving(in_turn(cuts_after(BODY, 70_000, etag='"v1"', accept_ranges="none"), tarball(BODY))) as origin:
        refuse(origin, partial, origin.url)
        attempt(origin, partial)
    assert "range" not in origin.asked[1].headers


def test_credentials_follow_redirects_within_their_origin_only(partial: Partial) -> None:
    with serving(tarball(BODY)) as other, serving(redirects("/again"), again=redirects(other.url)) as origin:
        found = attempt(origin, partial, credentials=BASIC)
    assert [asked.path for asked in origin.asked] == ["/crds.tar.gz", "/again"]
    assert all("authorization" in asked.headers for asked in origin.asked)
    assert "authorization" not in other.asked[0].headers
    assert found.url == other.url


def test_a_redirect_back_does_not_restore_credentials(partial: Partial) -> None:
    with serving(says()) as other, serving(redirects(other.url), back=tarball(BODY)) as origin:
        other.answer = redirects(f"{origin.base}/back")
        attempt(origin, partial, credentials=BASIC)
    assert ["authorization" in asked.headers for asked in origin.asked] == [True, False]


def test_redirects_have_an_end(partial: Partial) -> None:
    with serving(redirects("/crds.tar.gz")) as origin:
        assert refuse(origin, partial, f"more than {REDIRECTS} redirects").exit is Exit.HTTP
    assert len(origin.asked) == REDIRECTS + 1


@pytest.mark.parametrize(
    ("allowed", "fits"),
    [
        (("127.0.0.1",), True),
        (("LOCALHOST", "127.0.0.1"), True),
        ((".0.0.1",), True),
        (("example.org",), False),
        ((".example.org",), False),
        (("0.0.1",), False),
    ],
)
def test_only_allowed_hosts_are_asked(partial: Partial, allowed: tuple[str, ...], fits: bool) -> None:
    with serving(tarball(BODY)) as origin:
        if fits:
            assert attempt(origin, partial, allow_hosts=allowed).changed
        else:
            refuse(origin, partial, "its host is not one of the allowed hosts", allow_hosts=allowed)
        assert len(origin.asked) == fits


def test_a_private_address_is_refused_by_name_of_the_url(partial: Partial) -> None:
    with serving(tarball(BODY)) as origin:
        failure = refuse(origin, partial, f"{origin.url}: ", allow_private=False)
        assert (origin.connections, failure.again) == (0, False)


def test_a_body_of_another_kind_is_refused(partial: Partial) -> None:
    with serving(says(b"<html>" + b"x" * 1000, content_type="text/html")) as origin:
        refuse(origin, partial, "it looks like an HTML page")


def test_a_body_without_a_length_ends_with_its_last_chunk(partial: Partial, into: Path) -> None:
    with serving(chunked(BODY)) as origin:
        attempt(origin, partial)
    assert into.read_bytes() == BODY
    assert partial.total is None


def test_an_attempt_without_time_sends_nothing(partial: Partial) -> None:
    with serving(tarball(BODY)) as origin:
        address = parse_address(origin.url)
        assert address is not None
        job = Job(Source(origin.url, seconds=5), partial, 100.0, Timing(clock=lambda: 100.0), Cancellation())
        with pytest.raises(AttemptError, match="5 s") as raised:
            transfer(job, address, Validators())
        assert raised.value.exit is Exit.NETWORK
        assert origin.connections == 0
