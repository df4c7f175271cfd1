import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleethook.cluster.certificates.certificate_authority import issue_serving, list_names, new_authority
from fleethook.cluster.certificates.certificate_files import (
    CertificateError,
    CertificateFiles,
    InspectionError,
    ensure_certificates,
    inspect_directory,
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


NOW = datetime(2026, 6, 1, tzinfo=UTC)
AUTHORITY = new_authority(now=NOW)
SERVING = issue_serving(AUTHORITY, names=["a.example.com", "10.0.0.1"], now=NOW)
OTHER = new_authority(now=NOW)


def make_certificate(*extensions: x509.ExtensionType) -> bytes:
    """Return a certificate of the CA with other extensions, for the key of SERVING."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.example.com")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(AUTHORITY.certificate.subject)
        .public_key(SERVING.key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(AUTHORITY.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def encrypt(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


EARLY = "it is not valid before 2026-05-31T23:55:00+00:00"
SAN = x509.SubjectAlternativeName([x509.DNSName("a.example.com")])
INSPECTED_FILES = {
    "tls.crt": SERVING.certificate_pem,
    "tls.key": SERVING.key_pem,
    "ca.crt": AUTHORITY.certificate_pem,
    "ca.key": AUTHORITY.key_pem,
}
CASES: list[tuple[dict[str, bytes | None], dict[str, list[str]]]] = [
    ({}, {}),
    ({"ca.key": None}, {}),
    ({"ca.crt": None, "ca.key": None}, {}),
    ({"tls.key": None}, {"tls.crt": ["its key is missing: tls.key"]}),
    ({"tls.key": AUTHORITY.key_pem}, {"tls.crt": ["tls.key is the key of another certificate"]}),
    ({"tls.key": b"garbage"}, {"tls.crt": ["its key cannot be read: tls.key: "]}),
    ({"tls.key": encrypt(SERVING.key)}, {"tls.crt": ["its key cannot be read: tls.key: Password was not given"]}),
    ({"ca.key": SERVING.key_pem}, {"ca.crt": ["ca.key is the key of another certificate"]}),
    ({"ca.crt": OTHER.certificate_pem, "ca.key": None}, {"tls.crt": ["no CA of ca.crt has signed it"]}),
    ({"ca.crt": OTHER.certificate_pem + AUTHORITY.certificate_pem, "ca.key": OTHER.key_pem}, {}),
    (
        {"ca.crt": SERVING.certificate_pem, "ca.key": None},
        {"ca.crt": ["it is no CA (basicConstraints), so clients refuse the certificates that it signs"]},
    ),
    ({"tls.crt": make_certificate()}, {"tls.crt": ["it has no subject alternative name, so clients refuse it"]}),
    (
        {"tls.crt": make_certificate(SAN, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))},
        {"tls.crt": ["its extended key usage is not that of a server (serverAuth)"]},
    ),
    ({"tls.crt": make_certificate(SAN, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]))}, {}),
    ({"tls.crt": make_certificate(SAN)}, {}),
]  # fmt: skip


def inspect(
    directory: Path, files: dict[str, bytes | None], *names: str, now: datetime = NOW + timedelta(hours=1)
) -> dict[str, list[str]]:
    """Return the problems by file, without the directory."""
    for name, data in {**INSPECTED_FILES, **files}.items():
        if data is not None:
            (directory / name).write_bytes(data)
            (directory / name).chmod(0o600)
    found: dict[str, list[str]] = {}
    for one in inspect_directory(directory, names=names, now=now):
        texts = [problem.replace(f"{directory}/", "") for problem in one.problems]
        found.setdefault(one.file.name, []).extend(texts)
    return {name: problems for name, problems in found.items() if problems}


@pytest.mark.parametrize(("files", "problems"), CASES)
def test_files_that_do_not_fit_have_their_problems(
    tmp_path: Path, files: dict[str, bytes | None], problems: dict[str, list[str]]
) -> None:
    found = inspect(tmp_path, files)
    assert found.keys() == problems.keys()
    for name, texts in problems.items():
        assert [one[: len(text)] for one, text in zip(found[name], texts, strict=True)] == texts


@pytest.mark.parametrize(
    ("now", "problems"),
    [
        (NOW - timedelta(hours=1), {"tls.crt": [EARLY], "ca.crt": [EARLY]}),
        (NOW + timedelta(days=90, seconds=1), {"tls.crt": ["it expired at 2026-08-30T00:00:00+00:00"]}),
    ],
)  # fmt: skip
def test_certificates_out_of_their_time_have_a_problem(
    tmp_path: Path, now: datetime, problems: dict[str, list[str]]
) -> None:
    assert inspect(tmp_path, {}, now=now) == problems


@pytest.mark.parametrize(
    ("present", "name", "is_missing"),
    [
        ("a.example.com", "A.EXAMPLE.COM", False),
        ("a.example.com", "b.a.example.com", True),
        ("*.example.com", "a.example.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", True),
        ("10.0.0.1", "10.0.0.1", False),
        ("10.0.0.1", "10.0.0.2", True),
        ("::1", "0:0:0:0:0:0:0:1", False),
    ],
)
def test_names_are_covered_as_clients_match_them(tmp_path: Path, present: str, name: str, *, is_missing: bool) -> None:
    pair = issue_serving(AUTHORITY, names=[present], now=NOW)
    files = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    assert inspect(tmp_path, files, name) == ({"tls.crt": [f"it lacks the names {name}"]} if is_missing else {})


def test_an_intermediate_ca_leads_to_the_ca(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    middle = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "middle")]))
        .issuer_name(AUTHORITY.certificate.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .sign(AUTHORITY.key, hashes.SHA256())
    )
    serving = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(middle.subject)
        .public_key(key.public_key())
        .serial_number(2)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(SAN, critical=True)
        .sign(key, hashes.SHA256())
    )
    leaf, chain = (one.public_bytes(Encoding.PEM) for one in (serving, middle))
    files: dict[str, bytes | None] = {
        "tls.crt": leaf + chain,
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    }
    assert inspect(tmp_path, files) == {}
    assert inspect(tmp_path, {**files, "tls.crt": leaf}) == {"tls.crt": ["no CA of ca.crt has signed it"]}


@pytest.mark.parametrize(("mode", "is_exposed"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_key_that_other_users_can_read_is_a_problem(tmp_path: Path, mode: int, *, is_exposed: bool) -> None:
    inspect(tmp_path, {})
    (tmp_path / "tls.key").chmod(mode)
    (one, _) = inspect_directory(tmp_path, names=(), now=NOW)
    text = f"other users may use its key: {tmp_path}/tls.key has mode {mode:04o}, expected 0600"
    assert one.problems == ((text,) if is_exposed else ())


def test_the_mode_of_a_mounted_secret_is_no_problem(tmp_path: Path) -> None:
    inspect(tmp_path, {})
    (tmp_path / "data").write_bytes(SERVING.key_pem)
    (tmp_path / "tls.key").unlink()
    (tmp_path / "tls.key").symlink_to("data")
    assert [one.problems for one in inspect_directory(tmp_path, names=(), now=NOW)] == [(), ()]


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(SERVING.key_pem)
    with pytest.raises(InspectionError, match=r"cannot read .*/ca\.crt: "):
        inspect_directory(tmp_path, names=(), now=NOW)
