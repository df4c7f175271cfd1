import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fleethook.cluster.certificates.certificate_authority import issue_serving, list_names, new_authority
from fleethook.cluster.certificates.certificate_files import (
    CertificateError,
    CertificateFiles,
    ensure_certificates,
    write_file,
)
from fleethook.cluster.certificates.reloading_tls_context import create_server_context

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


def read_certificate(files: CertificateFiles) -> bytes:
    return files.certificate.read_bytes()


def test_the_second_start_reuses_the_certificates(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path / "certs", names=NAMES, now=NOW)
    kept = read_certificate(first)
    second = ensure_certificates(tmp_path / "certs", names=NAMES, now=NOW + timedelta(days=59))
    assert (first.created, second.created, read_certificate(second)) == (True, False, kept)


def test_keys_are_private_and_no_temporary_file_remains(tmp_path: Path) -> None:
    ensure_certificates(tmp_path / "certs", names=NAMES, now=NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()}
    assert modes["ca.key"] == modes["tls.key"] == 0o600
    assert set(modes) == {"ca.crt", "ca.key", "tls.crt", "tls.key", ".lock"}
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o700


@pytest.mark.parametrize("change", ["age", "names", "certificate gone", "key of another", "garbage"])
def test_an_unusable_certificate_is_replaced(tmp_path: Path, change: str) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=NOW)
    kept, authority = read_certificate(files), (tmp_path / "ca.crt").read_bytes()
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
    assert read_certificate(renewed) != kept
    assert (tmp_path / "ca.crt").read_bytes() == authority
    create_server_context(renewed, None)


def test_provided_certificates_are_used_and_never_written(tmp_path: Path) -> None:
    pair = issue_serving(new_authority(now=NOW), names=["elsewhere"], now=NOW)
    (tmp_path / "tls.crt").write_bytes(pair.certificate_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    files = ensure_certificates(tmp_path, names=NAMES, now=NOW + timedelta(days=80))
    assert not files.created
    assert {path.name for path in tmp_path.iterdir()} == {"tls.crt", "tls.key"}


def test_a_wrong_ca_key_is_an_error_with_both_files(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca.key").write_bytes(new_authority(now=NOW).key_pem)
    with pytest.raises(CertificateError, match=r"ca\.key is not the key of .*ca\.crt; remove both"):
        ensure_certificates(tmp_path, names=NAMES, now=NOW)


def test_an_unreadable_ca_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca.key").write_text("-----BEGIN")
    with pytest.raises(CertificateError, match=r"cannot be read .*; remove both to create a new CA"):
        ensure_certificates(tmp_path, names=NAMES, now=NOW)


def test_an_expired_ca_is_replaced(tmp_path: Path) -> None:
    expired = new_authority(now=NOW, lifetime=timedelta(days=1))
    (tmp_path / "ca.crt").write_bytes(expired.certificate_pem)
    (tmp_path / "ca.key").write_bytes(expired.key_pem)

    assert ensure_certificates(tmp_path, names=NAMES, now=NOW + timedelta(days=2)).created
    assert (tmp_path / "ca.crt").read_bytes() != expired.certificate_pem


def test_a_failed_write_keeps_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "tls.key"
    write_file(path, b"former", mode=0o600)
    with pytest.raises(TypeError):
        write_file(path, "text", mode=0o644)  # type: ignore[arg-type]

    assert path.read_bytes() == b"former"
    assert list(tmp_path.iterdir()) == [path]


def test_a_ca_without_its_key_is_never_replaced(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca.key").unlink()
    files.key.unlink()
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CertificateError, match=r"ca\.key is missing, so .*ca\.crt can sign nothing; remove it"):
        ensure_certificates(tmp_path, names=NAMES, now=NOW)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_long_names_are_served(tmp_path: Path) -> None:
    long = f"fleethook.{'n' * 63}.svc"
    files = ensure_certificates(tmp_path, names=[long, f"*.{long}"], now=NOW)
    certificate = x509.load_pem_x509_certificate(read_certificate(files))
    assert list_names(certificate) == {long, f"*.{long}"}
    assert certificate.subject.rfc4514_string() == "CN=fleethook"
