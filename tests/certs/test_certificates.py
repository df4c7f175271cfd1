import contextlib
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from app.certs.authority import KeyPair, issue_serving, list_names, new_authority
from app.certs.files import CertificateError, CertificateFiles, ensure_certificates
from app.certs.tls_context import create_server_context
from tests.waiting import NET

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


def test_the_authority_may_sign_certificates_and_nothing_below_it_may() -> None:
    certificate = new_authority(now=NOW).certificate
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert certificate.not_valid_before_utc < NOW < certificate.not_valid_after_utc


def test_a_serving_certificate_is_for_servers_and_its_names_for_ninety_days() -> None:
    authority = new_authority(now=NOW)
    certificate = issue_serving(authority, names=NAMES, now=NOW).certificate
    certificate.verify_directly_issued_by(authority.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert list_names(certificate) == set(NAMES)
    assert certificate.not_valid_after_utc == NOW + timedelta(days=90)


def test_a_serving_certificate_never_outlives_its_authority() -> None:
    authority = new_authority(now=NOW)
    end = authority.certificate.not_valid_after_utc
    assert issue_serving(authority, names=NAMES, now=end - timedelta(days=1)).certificate.not_valid_after_utc == end


def test_a_key_pair_does_not_print_its_key() -> None:
    pair = new_authority(now=NOW)
    assert "PRIVATE" not in repr(pair)
    assert "fleethook CA" in repr(pair)


def fingerprint(files: CertificateFiles) -> bytes:
    return files.certificate.read_bytes()


def test_the_first_start_makes_everything_and_the_second_uses_it(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path / "certs", names=NAMES, now=NOW)
    kept = fingerprint(first)
    second = ensure_certificates(tmp_path / "certs", names=NAMES, now=NOW + timedelta(days=59))
    assert (first.created, second.created, fingerprint(second)) == (True, False, kept)


def test_keys_are_for_their_owner_only_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    ensure_certificates(tmp_path / "certs", names=NAMES, now=NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()}
    assert modes["ca.key"] == modes["tls.key"] == 0o600
    assert set(modes) == {"ca.crt", "ca.key", "tls.crt", "tls.key", ".lock"}
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o700


@pytest.mark.parametrize("change", ["age", "names", "certificate gone", "key of another", "garbage"])
def test_the_serving_certificate_is_issued_anew_when_it_no_longer_serves(tmp_path: Path, change: str) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=NOW)
    kept, authority = fingerprint(files), (tmp_path / "ca.crt").read_bytes()
    names, now = NAMES, NOW
    if change == "age":
        now = NOW + timedelta(days=61)
    elif change == "names":
        names = [*NAMES, "fleethook.default.svc"]
    elif change == "certificate gone":
        files.certificate.unlink()
    elif change == "key of another":
        files.key.write_bytes(issue_serving(new_authority(now=NOW), names=NAMES, now=NOW).key_pem)
    else:
        files.certificate.write_text("not a certificate")
    renewed = ensure_certificates(tmp_path, names=names, now=now)
    assert renewed.created
    assert fingerprint(renewed) != kept
    assert (tmp_path / "ca.crt").read_bytes() == authority
    create_server_context(renewed, None)


def test_certificates_of_somebody_else_are_used_and_never_written(tmp_path: Path) -> None:
    pair = issue_serving(new_authority(now=NOW), names=["elsewhere"], now=NOW)
    (tmp_path / "tls.crt").write_bytes(pair.certificate_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    files = ensure_certificates(tmp_path, names=NAMES, now=NOW + timedelta(days=80))
    assert not files.created
    assert {path.name for path in tmp_path.iterdir()} == {"tls.crt", "tls.key"}


def test_a_key_that_does_not_fit_its_authority_is_an_error_that_names_both(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca.key").write_bytes(new_authority(now=NOW).key_pem)
    with pytest.raises(CertificateError, match=r"ca\.key is not the key of .*ca\.crt; remove both"):
        ensure_certificates(tmp_path, names=NAMES, now=NOW)


def test_an_unreadable_authority_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca.key").write_text("-----BEGIN")
    with pytest.raises(CertificateError, match=r"cannot be read .*; remove both to create a new CA"):
        ensure_certificates(tmp_path, names=NAMES, now=NOW)


def test_a_pair_that_does_not_fit_never_reaches_a_server(tmp_path: Path) -> None:
    authority = new_authority(now=NOW)
    one, other = (issue_serving(authority, names=NAMES, now=NOW) for _ in range(2))
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt", created=False)
    files.certificate.write_bytes(one.certificate_pem)
    files.key.write_bytes(other.key_pem)
    with pytest.raises(CertificateError, match=r"tls\.crt and .*tls\.key cannot be used"):
        create_server_context(files, None)


def test_a_client_that_trusts_the_authority_connects_by_every_name(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))
    context = ssl.create_default_context(cafile=str(files.authority_certificate))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for name in ("localhost", "127.0.0.1"):
            accepted: list[str | None] = []

            def serve(accepted: list[str | None] = accepted) -> None:
                connection, _ = listener.accept()
                with create_server_context(files, None).wrap_socket(connection, server_side=True) as secured:
                    accepted.append(secured.version())

            thread = threading.Thread(target=serve)
            thread.start()
            with (
                socket.create_connection(listener.getsockname()) as plain,
                context.wrap_socket(plain, server_hostname=name),
            ):
                pass
            thread.join(timeout=NET)
            assert accepted == ["TLSv1.3"]


def test_a_handshake_has_no_part_that_nobody_uses(tmp_path: Path) -> None:
    """An apiserver keeps no sessions: a ticket would be made for each connection and thrown away."""
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=str(files.authority_certificate)).wrap_bio(
        to_client, to_server, server_hostname="localhost"
    )
    server = create_server_context(files, None).wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    server.do_handshake()
    assert server.version() == "TLSv1.3"
    # What follows the server's Finished would be tickets.
    assert to_client.read() == b""


def test_key_pairs_know_whether_they_are_elliptic() -> None:
    with pytest.raises(ValueError, match=r"."):
        _ = KeyPair(b"", b"").key
