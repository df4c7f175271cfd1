import contextlib
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.certs.authority import issue_serving, new_authority
from app.certs.files import CertificateError, CertificateFiles, ensure_certificates
from app.certs.tls_context import ReloadingContext, create_server_context
from tests.waiting import NET

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


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


def test_a_handshake_creates_no_session_tickets(tmp_path: Path) -> None:
    """kube-apiserver resumes no sessions, so tickets would only cost CPU time."""
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
    # The server sends tickets after its Finished.
    assert to_client.read() == b""


def test_each_certificate_of_the_client_authorities_is_a_root(tmp_path: Path) -> None:
    """A client of an intermediate CA is trusted without the root, as by Go's servers."""
    now, keys = datetime.now(UTC), [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    made = []
    for number, (issuer, key) in enumerate(((0, keys[0]), (0, keys[1]), (1, keys[2]))):
        names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{one}")]) for one in (issuer, number)]
        builder = x509.CertificateBuilder(*names, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        authority = x509.BasicConstraints(ca=number < 2, path_length=None)
        made.append(builder.add_extension(authority, critical=True).sign(keys[issuer], hashes.SHA256()))
    pem = [one.public_bytes(Encoding.PEM) for one in made]
    (tmp_path / "clients.crt").write_bytes(pem[1])
    (tmp_path / "client.pem").write_bytes(
        pem[2] + keys[2].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    files = ensure_certificates(tmp_path, names=NAMES, now=now)
    client = ssl.create_default_context(cafile=str(files.authority_certificate))
    client.load_cert_chain(tmp_path / "client.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = create_server_context(files, tmp_path / "clients.crt").wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    other.do_handshake()
    assert other.getpeercert(binary_form=True) == made[2].public_bytes(Encoding.DER)


def connect(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """Handshake in memory and return the server's certificate in DER."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = one.getpeercert(binary_form=True)
    assert certificate is not None
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


def test_client_certificates_are_optional_and_verified(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))

    assert create_server_context(files, None).verify_mode is ssl.CERT_NONE
    assert create_server_context(files, files.authority_certificate).verify_mode is ssl.CERT_OPTIONAL


def test_an_unreadable_client_ca_is_an_error(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, names=NAMES, now=datetime.now(UTC))
    with pytest.raises(CertificateError, match=r"absent\.crt cannot be used.*provide the CA certificates of clients"):
        create_server_context(files, tmp_path / "absent.crt")
