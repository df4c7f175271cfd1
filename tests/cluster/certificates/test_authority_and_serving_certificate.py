import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.cluster.certificates.authority_and_serving_certificate import (
    CertificateError,
    CertificateFiles,
    KeyPair,
    ReloadingContext,
    create_server_context,
    ensure_certificates,
    find_renewal_time,
    is_current,
    issue_serving,
    list_names,
    new_authority,
    write_file,
)
from tests.pki import certify, encode_key
from tests.waiting import NET

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


def test_a_wrong_key_is_an_error(tmp_path: Path) -> None:
    authority = new_authority(now=NOW)
    one, other = (issue_serving(authority, names=NAMES, now=NOW) for _ in range(2))
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt", created=False)
    files.certificate.write_bytes(one.certificate_pem)
    files.key.write_bytes(other.key_pem)
    with pytest.raises(CertificateError, match=r"tls\.crt and .*tls\.key cannot be used"):
        create_server_context(files, None)


def test_a_client_that_trusts_the_ca_connects_by_each_name(tmp_path: Path) -> None:
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


AUTHORITY: Final = x509.BasicConstraints(ca=True, path_length=None)
ANY_USAGE: Final = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])
SERVER_USAGE: Final = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
KEYS: Final = [ec.generate_private_key(ec.SECP256R1()) for _ in range(4)]


def issue(subject: str, issuer: str, key: int, signer: int, *extensions: x509.ExtensionType, days: int = 1) -> bytes:
    return certify(subject, issuer, KEYS[key], KEYS[signer], *extensions, days=days)


OWN_KEYS: Final = [x509.SubjectKeyIdentifier.from_public_key(one.public_key()) for one in KEYS]
ISSUER_KEYS: Final = [x509.AuthorityKeyIdentifier.from_issuer_public_key(one.public_key()) for one in KEYS]
ROOTS: Final = [issue("ca", "ca", number, number, AUTHORITY, OWN_KEYS[number]) for number in range(2)]
LOWER: Final = issue("lower", "ca", 2, 0, AUTHORITY)
# The trusted certificates, those that the client presents (its key is the last one), and whether they are accepted.
CLIENTS: Final = {
    "root": (ROOTS[:1], [issue("client", "ca", 3, 0)], True),
    "renewed root of the same subject": (ROOTS, [issue("client", "ca", 3, 1, ISSUER_KEYS[1])], True),
    "any usage, which Go accepts": (ROOTS[:1], [issue("client", "ca", 3, 0, ANY_USAGE)], False),
    "intermediate in the file": ([LOWER], [issue("client", "lower", 3, 2)], True),
    "intermediate presented": (ROOTS, [issue("client", "lower", 3, 2), LOWER], True),
    "another root": (ROOTS[:1], [issue("client", "ca", 3, 1)], False),
    "usage of servers": (ROOTS[:1], [issue("client", "ca", 3, 0, SERVER_USAGE)], False),
    "expired": (ROOTS[:1], [issue("client", "ca", 3, 0, days=-1)], False),
    "root without constraints": ([issue("ca", "ca", 0, 0)], [issue("client", "ca", 3, 0)], False),
}


def present(chain: list[bytes], directory: Path, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Return the context of a client with these certificates and the last key."""
    (directory / "client.pem").write_bytes(b"".join(chain) + encode_key(KEYS[3]))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode, client.maximum_version = False, ssl.CERT_NONE, version
    client.load_cert_chain(directory / "client.pem")
    return client


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject] | None:
    """Return the sides of the client and of the server after a handshake, None if the server refuses the client."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return None
    return one, other


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(("trusted", "presented", "accepted"), CLIENTS.values(), ids=CLIENTS)
def test_client_certificates_are_verified(
    tmp_path: Path, *, version: ssl.TLSVersion, trusted: list[bytes], presented: list[bytes], accepted: bool
) -> None:
    (tmp_path / "clients.crt").write_bytes(b"".join(trusted))
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))
    server = ReloadingContext(files, tmp_path / "clients.crt").context
    sides = handshake(server, present(presented, tmp_path, version))
    assert (sides is not None) == accepted
    if sides is not None:
        assert sides[1].getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(presented[0].decode())


def test_a_client_is_refused_when_its_root_is_removed(tmp_path: Path) -> None:
    (tmp_path / "clients.crt").write_bytes(ROOTS[0])
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))
    reloading = ReloadingContext(files, tmp_path / "clients.crt")
    client = present([issue("client", "ca", 3, 0)], tmp_path, ssl.TLSVersion.TLSv1_3)
    assert handshake(reloading.context, client)
    (tmp_path / "clients.crt").write_bytes(ROOTS[1])
    assert reloading.reload()
    assert handshake(reloading.context, client) is None


def connect(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """Handshake in memory and return the server's certificate in DER."""
    sides = handshake(server, client)
    certificate = sides and sides[0].getpeercert(binary_form=True)
    assert certificate
    return certificate


def test_a_handshake_uses_the_newest_usable_files(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    files = ensure_certificates(tmp_path, names=NAMES, now=now)
    reloading = ReloadingContext(files)
    client = ssl.create_default_context(cafile=str(files.authority_certificate))
    first, listening = connect(reloading.context, client), reloading.context
    assert not reloading.reload()

    files.key.write_bytes(new_authority(now=now).key_pem)
    assert not reloading.reload()
    assert "cannot be used" in reloading.problem
    assert connect(reloading.context, client) == first

    ensure_certificates(tmp_path, names=NAMES, now=now)
    assert reloading.reload()
    assert reloading.problem == ""
    assert reloading.context is listening
    assert connect(reloading.context, client) != first


def test_an_unreadable_client_ca_is_an_error(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))
    with pytest.raises(
        CertificateError, match=r"absent\.crt: no such file or directory; provide the CA certificates of clients"
    ):
        create_server_context(files, tmp_path / "absent.crt")


@pytest.mark.parametrize("name", ["", "a b", "ünï.example.com", "a,b", "10.0.0.0/8"])
def test_a_name_that_no_certificate_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CertificateError, match="neither an IP address nor a DNS name in ASCII"):
        ensure_certificates(tmp_path / "new", names=[name], now=NOW)
    assert not (tmp_path / "new").exists()


def test_a_ca_signs_certificates_and_no_intermediate_cas() -> None:
    certificate = new_authority(now=NOW).certificate
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert certificate.not_valid_before_utc < NOW < certificate.not_valid_after_utc


def test_a_serving_certificate_has_its_names_and_ninety_days() -> None:
    authority = new_authority(now=NOW)
    certificate = issue_serving(authority, names=NAMES, now=NOW).certificate
    certificate.verify_directly_issued_by(authority.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert list_names(certificate) == set(NAMES)
    assert certificate.not_valid_after_utc == NOW + timedelta(days=90)


def test_a_serving_certificate_never_outlives_its_ca() -> None:
    authority = new_authority(now=NOW)
    end = authority.certificate.not_valid_after_utc
    assert issue_serving(authority, names=NAMES, now=end - timedelta(days=1)).certificate.not_valid_after_utc == end


def test_the_repr_of_a_key_pair_hides_the_key() -> None:
    pair = new_authority(now=NOW)
    assert "PRIVATE" not in repr(pair)
    assert "fleethook CA" in repr(pair)


def test_a_certificate_is_renewed_after_two_thirds_of_its_lifetime() -> None:
    certificate = issue_serving(new_authority(now=NOW), names=NAMES, now=NOW).certificate

    assert timedelta(days=59, hours=23) < find_renewal_time(certificate) - NOW < timedelta(days=60)


@pytest.mark.parametrize("change", ["names", "age", "ca", "key", "garbage"])
def test_a_certificate_is_current_only_for_its_ca_names_and_key(change: str) -> None:
    authority = new_authority(now=NOW)
    serving = issue_serving(authority, names=NAMES, now=NOW)
    names, now = NAMES, NOW
    assert is_current(serving, authority, names=names, now=now)
    if change == "names":
        names = [*NAMES, "fleethook.default.svc"]
    elif change == "age":
        now = find_renewal_time(serving.certificate)
    elif change == "ca":
        authority = new_authority(now=NOW)
    elif change == "key":
        serving = serving._replace(key_pem=authority.key_pem)
    else:
        serving = KeyPair(b"garbage", serving.key_pem)

    assert not is_current(serving, authority, names=names, now=now)


def test_a_key_must_be_elliptic() -> None:
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    with pytest.raises(ValueError, match="the key is not an elliptic curve key"):
        _ = KeyPair(b"", key).key
