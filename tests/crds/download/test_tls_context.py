"""The TLS context of a download: authorities, and the client certificate for the origin only."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.certs.authority import issue_serving, new_authority
from app.crds.download.tls_context import build_tls_context
from app.crds.failures import CRDsError, Exit
from app.crds.source import Credentials, Source

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
