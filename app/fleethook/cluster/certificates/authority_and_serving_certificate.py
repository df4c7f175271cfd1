"""The certificate authority, the serving certificate, their files, and the TLS context that a server reloads from them.

A server creates them on its first start, or an administrator or cert-manager provides them (RFC 5280, ECDSA P-256).
P-256 instead of RSA halves the server's CPU time for a handshake, and creating a key takes milliseconds.

OpenSSL's callback for server names (RFC 6066 section 3) gives each handshake the newest context. Open connections keep
their context. `ReloadingContext` builds a new context from changed files, so a certificate with a wrong key never
affects the context in use.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleethook.model.formats.names_and_labels import is_dns1123_subdomain
from fleethook.model.formats.text import describe_os_error

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
SERVING_LIFETIME: Final = timedelta(days=90)
_RENEWAL_SHARE: Final = 2 / 3
"""The share of a certificate's lifetime after which it is renewed."""
CERTIFICATE_SECONDS: Final = 30.0
"""Between two checks whether certificates need renewal."""
# Clocks of a cluster's machines differ by seconds, and by minutes without time synchronization.
_CLOCK_SKEW: Final = timedelta(minutes=5)
# RFC 5280, A.1: ub-common-name. Clients read the subject alternative names only.
_MAX_COMMON_NAME: Final = 64


class KeyPair(NamedTuple):
    """A certificate and its private key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        """Return a text without the key, which must not reach a log in a traceback."""
        return f"KeyPair({self.certificate.subject.rfc4514_string()!r})"

    @property
    def certificate(self) -> x509.Certificate:
        """The parsed certificate; raises ValueError if the PEM is invalid."""
        return x509.load_pem_x509_certificate(self.certificate_pem)

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """The parsed key; raises ValueError if it is not an unencrypted EC key."""
        key = load_pem_private_key(self.key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not an elliptic curve key")  # noqa: TRY004 - the value is wrong, not the call
        return key


def new_authority(
    *, now: datetime, common_name: str = "fleethook CA", lifetime: timedelta = AUTHORITY_LIFETIME
) -> KeyPair:
    """Return a new self-signed certificate authority, valid from ``now`` for ``lifetime``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _start_certificate(key, subject=name, issuer=name, now=now, until=now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _encode_pair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(
    authority: KeyPair, *, names: Sequence[str], now: datetime, lifetime: timedelta = SERVING_LIFETIME
) -> KeyPair:
    """Issue a serving certificate.

    Args:
        authority: The certificate authority. Its certificate's end limits the lifetime.
        names: The DNS names and IP addresses to serve; the first one of at most 64 characters becomes the common name.
        now: The start of the lifetime.
        lifetime: The maximum lifetime.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    common_name = next((name for name in names if len(name) <= _MAX_COMMON_NAME), "fleethook")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    until = min(now + lifetime, issuer.not_valid_after_utc)
    builder = (
        _start_certificate(key, subject=subject, issuer=issuer.subject, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_parse_general_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    return _encode_pair(builder.sign(authority.key, hashes.SHA256()), key)


def find_renewal_time(certificate: x509.Certificate) -> datetime:
    """Return the time at which to renew ``certificate``: two thirds of its lifetime."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * _RENEWAL_SHARE


def is_current(serving: KeyPair, authority: KeyPair, *, names: Sequence[str], now: datetime) -> bool:
    """Return whether ``authority`` issued ``serving`` for ``names`` and its renewal is not due."""
    try:
        certificate = serving.certificate
        certificate.verify_directly_issued_by(authority.certificate)
        fits = certificate.public_key() == serving.key.public_key()
    except Exception:  # noqa: BLE001 - fleethook issued this certificate, so a new one repairs any damage
        return False
    return fits and set(names) <= list_names(certificate) and now < find_renewal_time(certificate)


def list_names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names and IP addresses in the subject alternative names of ``certificate``."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))


def is_server_name(name: str) -> bool:
    """Return whether a certificate can have a name: an IP address, or a DNS name in ASCII, of which ``*`` is a part."""
    try:
        ip_address(name)
    except ValueError:
        return is_dns1123_subdomain(name.lower().removeprefix("*."))
    return True


def _parse_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _start_certificate(
    key: ec.EllipticCurvePrivateKey, *, subject: x509.Name, issuer: x509.Name, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _encode_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


_log: Final = logging.getLogger(__name__)


class CertificateError(Exception):
    """Certificate files are unusable; the text names the files and the remedy."""


class CertificateFiles(NamedTuple):
    """The paths of the serving certificate, its key and its CA certificate.

    ``created`` is true if `ensure_certificates` issued the serving certificate just now.
    """

    certificate: Path
    key: Path
    authority_certificate: Path
    created: bool


def ensure_certificates(directory: Path, *, names: Sequence[str], now: datetime) -> CertificateFiles:
    """Return the serving certificate in ``directory``, and issue a CA and a certificate if necessary.

    A directory with ``tls.crt`` and ``tls.key`` and without ``ca.key`` is provided from outside, for example as a
    mounted Secret of cert-manager. It is never written to. In other directories, the CA is created once. A new serving
    certificate is issued if it is missing or past two thirds of its lifetime, if it lacks one of ``names``, or if it
    does not match its key.

    Raises:
        CertificateError: The CA's files are unusable, its key is missing, or a certificate cannot have a name.
        OSError: The directory is not writable.
    """
    wrong = [name for name in names if not is_server_name(name)]
    if wrong:
        raise CertificateError(f"{wrong[0]!r} is neither an IP address nor a DNS name in ASCII")
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt", created=False)
    authority_key = directory / "ca.key"
    if files.certificate.exists() and files.key.exists() and not authority_key.exists():
        return files
    is_provided = not authority_key.exists() and not files.authority_certificate.exists()
    if is_provided and files.certificate.exists() != files.key.exists():
        present, absent = (
            (files.certificate, files.key) if files.certificate.exists() else (files.key, files.certificate)
        )
        raise CertificateError(
            f"{present} has no {absent.name} beside it: add it, or remove {present.name} to create both"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = "is not a directory" if directory.exists() else f"cannot be created: {describe_os_error(error)}"
        raise CertificateError(
            f"the directory of the certificate, {directory}, {reason}; give another --cert-dir"
        ) from None
    with _hold_lock(directory):
        authority = _load_or_create_authority(files.authority_certificate, authority_key, now=now)
        if _has_current_certificate(files, authority, names=names, now=now):
            return files
        serving = issue_serving(authority, names=names, now=now)
        write_file(files.key, serving.key_pem, mode=0o600)
        write_file(files.certificate, serving.certificate_pem, mode=0o644)
    return files._replace(created=True)


async def renew_certificates(directory: Path, *, names: Sequence[str], check_seconds: float) -> None:
    """Call `ensure_certificates` every ``check_seconds``, until cancelled."""
    while True:
        await asyncio.sleep(check_seconds)
        try:
            if ensure_certificates(directory, names=names, now=datetime.now(UTC)).created:
                _log.info("certificate renewed", extra={"fields": {"directory": str(directory)}})
        except (CertificateError, OSError) as error:
            _log.error("cannot check the certificates in %s: %s", directory, error)


@contextlib.contextmanager
def _hold_lock(directory: Path) -> Iterator[None]:
    """Let only one process at a time issue certificates."""
    import fcntl  # noqa: PLC0415 - exists on Unix only

    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _load_or_create_authority(certificate: Path, key: Path, *, now: datetime) -> KeyPair:
    if certificate.exists() and key.exists():
        authority = KeyPair(certificate.read_bytes(), key.read_bytes())
        try:
            fits = authority.certificate.public_key() == authority.key.public_key()
        except ValueError as error:
            raise CertificateError(
                f"{certificate} or {key} cannot be read ({error}); remove both to create a new CA"
            ) from None
        if not fits:
            raise CertificateError(f"{key} is not the key of {certificate}; remove both to create a new CA")
        if authority.certificate.not_valid_after_utc > now:
            return authority
    elif certificate.exists():
        # A new CA would replace one that clients trust.
        raise CertificateError(f"{key} is missing, so {certificate} can sign nothing; remove it to create a new CA")
    authority = new_authority(now=now)
    write_file(key, authority.key_pem, mode=0o600)
    write_file(certificate, authority.certificate_pem, mode=0o644)
    return authority


def _has_current_certificate(
    files: CertificateFiles, authority: KeyPair, *, names: Sequence[str], now: datetime
) -> bool:
    if not (files.certificate.exists() and files.key.exists()):
        return False
    return is_current(KeyPair(files.certificate.read_bytes(), files.key.read_bytes()), authority, names=names, now=now)


def write_file(path: Path, data: bytes, *, mode: int) -> None:
    """Replace a file atomically; ``mode`` applies before the first byte is written."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# The kubelet updates a mounted Secret within about a minute, and reading three small files costs almost nothing.
_POLL_SECONDS: Final = 2.0


def create_server_context(files: CertificateFiles, client_authority: Path | None) -> ssl.SSLContext:
    """Return a TLS context for a server.

    Args:
        files: The serving certificate and its key.
        client_authority: The CA certificates that verify client certificates. Clients may connect without one, as the
            kubelet's probes do. Routes that need a client certificate reject such requests.

    Raises:
        CertificateError: A file is unreadable, or the key does not belong to the certificate.
    """
    context = _load_certificate(files)
    if client_authority is None:
        return context
    context.verify_mode = ssl.CERT_OPTIONAL
    # Each certificate of the file is trusted, also one that is not an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # With a ticket, a client could resume its session after its certificate is no longer trusted.
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_verify_locations(client_authority)
    except ssl.SSLError:
        problem = "has no certificate that can be parsed; provide the CA certificates of clients in PEM"
        raise CertificateError(f"{client_authority} {problem}") from None
    except OSError as error:
        problem = f"{client_authority}: {describe_os_error(error)}"
        raise CertificateError(f"{problem}; provide the CA certificates of clients") from None
    return context


def _load_certificate(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # kube-apiserver offers only HTTP/1.1 to webhooks, and this server supports only HTTP/1.1.
    context.set_alpn_protocols(["http/1.1"])
    # client-go sets no session cache, so kube-apiserver resumes no sessions. Creating two tickets takes an eighth to a
    # fifth of a handshake's CPU time.
    context.num_tickets = 0
    try:
        context.load_cert_chain(files.certificate, files.key)
    except ssl.SSLError as error:
        other = error.reason == "KEY_VALUES_MISMATCH"
        reason = "the key is of another certificate" if other else "one of them is not in PEM"
        raise CertificateError(
            f"{files.certificate} and {files.key} cannot be used: {reason}; provide a PEM certificate and its key"
        ) from None
    except OSError as error:
        raise CertificateError(
            f"{files.certificate} and {files.key} cannot be read: {describe_os_error(error)}"
        ) from None
    return context


class ReloadingContext:
    """A TLS context that reloads its certificate files.

    Attributes:
        context: The context for the listening socket; always the same object.
        problem: Why the current files are unusable, ``""`` if they are in use.
        expiry: The end of the certificate in use, in seconds since the epoch.
    """

    def __init__(self, files: CertificateFiles, client_authority: Path | None = None) -> None:
        """Read the files; raises CertificateError if they are unusable."""
        self._files: Final = files
        self._client_authority: Final = client_authority
        self._stamp = self._hash_files()
        self.context: Final = create_server_context(files, client_authority)
        self._newest = self.context
        self.expiry = _read_expiry(files.certificate)
        self.context.sni_callback = self._select_context
        self.problem = ""

    def _select_context(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest

    def reload(self) -> bool:
        """Load changed files; return whether they are in use now. Unusable files leave the context as it is."""
        stamp = self._hash_files()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            newest = create_server_context(self._files, self._client_authority)
            self.expiry = _read_expiry(self._files.certificate)
        except CertificateError as error:
            self.problem = str(error)
            _log.error("the certificate in use is kept: %s", error)
            return False
        self.problem, self._newest = "", newest
        _log.info("certificate replaced", extra={"fields": {"file": str(self._files.certificate)}})
        return True

    def _hash_files(self) -> bytes:
        """Return a digest of the files' contents and read errors."""
        digest = hashlib.sha256()
        for path in (self._files.certificate, self._files.key, self._client_authority):
            try:
                digest.update(path.read_bytes() if path else b"")
            except OSError as error:
                digest.update(str(error.errno).encode())
            digest.update(b"\0")
        return digest.digest()

    async def watch(self) -> None:
        """Reload the files after each change, until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self.reload()


def _read_expiry(certificate: Path) -> float:
    """Return the end of the first certificate in a file, which is the one of the server; raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()
    except OSError as error:
        raise CertificateError(f"cannot read {describe_os_error(error)}") from None
    except ValueError as error:
        raise CertificateError(f"{certificate} cannot be read: {error}; provide a PEM certificate") from None
