"""The TLS context of a running server, which reloads its certificate files.

OpenSSL's callback for server names (RFC 6066 section 3) gives each handshake the newest context. Open connections keep
their context. `ReloadingContext` builds a new context from changed files, so a certificate with a wrong key never
affects the context in use.
"""

import asyncio
import base64
import hashlib
import logging
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from fleethook.cluster.certificates.certificate_files import CertificateError, CertificateFiles
from fleethook.model.formats.text import describe_os_error
from fleethook.outbound.endpoint import as_file
from fleethook.outbound.tls.certificate_chain import Roots, verify_client
from fleethook.outbound.tls.certificate_der import CertificateError as VerificationError
from fleethook.outbound.tls.trust import decode_pem

_log: Final = logging.getLogger(__name__)

# The kubelet updates a mounted Secret within about a minute, and reading three small files costs almost nothing.
_POLL_SECONDS: Final = 2.0
# Types of records and messages, RFC 8446, sections 4 and 5.1.
_HANDSHAKE: Final = 22
_CERTIFICATE: Final = 11
# An option of OpenSSL 3.2 that Python does not name: `_read_message` reads no compressed certificates (RFC 8879).
_OP_NO_RX_CERTIFICATE_COMPRESSION: Final = 1 << 33
# OpenSSL's X509_CERT_AUX behind a certificate: trusted for the usage clientAuth.
_TRUSTED_FOR_CLIENTS: Final = bytes.fromhex("300c300a06082b06010505070302")
# A certificate takes about 2 KiB. Clients may have new ones each hour.
_MAX_KNOWN: Final = 1000


def create_server_context(files: CertificateFiles, client_authority: Path | None) -> ssl.SSLContext:
    """Return a TLS context for a server.

    Args:
        files: The serving certificate and its key.
        client_authority: The CA certificates that verify client certificates. Clients may connect without one, as the
            kubelet's probes do. Routes that need a client certificate reject such requests.

    Raises:
        CertificateError: A file is unreadable, or the key does not belong to the certificate.
    """
    plain = _prepare(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)
    if client_authority is None:
        return plain
    verifying = _VerifyingContext(ssl.PROTOCOL_TLS_SERVER, _read_roots(client_authority), plain)
    for context in (plain, _prepare(verifying, files)):
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # With a ticket, a client could resume its session after its certificate is no longer trusted.
        context.options |= ssl.OP_NO_TICKET | _OP_NO_RX_CERTIFICATE_COMPRESSION
    return verifying


def _prepare(context: ssl.SSLContext, files: CertificateFiles) -> ssl.SSLContext:
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


class _Connection(ssl.SSLObject):
    """Ends a handshake with a client certificate that `fleethook.outbound.tls.certificate_chain` has not verified."""

    verified: bytes | None = None
    """The client's certificate in DER."""

    def do_handshake(self) -> None:
        """Read and write messages."""
        super().do_handshake()
        # A resumed session has a certificate, too, that no message contained.
        if self.getpeercert(binary_form=True) != self.verified:
            raise ssl.SSLCertVerificationError(1, "the client certificate is not trusted")
        if isinstance(self.context, _VerifyingContext):
            # Otherwise each record would cost 10 microseconds.
            self.context = self.context.without_callback


class _VerifyingContext(ssl.SSLContext):
    """Verifies client certificates as Go does.

    Go's rules decide about each handshake. OpenSSL cannot be told to verify nothing, so it learns to trust a
    certificate after Go's rules have accepted it.
    """

    sslobject_class = _Connection

    def __init__(self, _protocol: int, roots: Roots, without_callback: ssl.SSLContext) -> None:
        super().__init__()
        self._roots: Final = roots
        self.without_callback: Final = without_callback
        self._known: Final[set[bytes]] = set()
        # Python has no other way to see the certificates before OpenSSL refuses them.
        self._msg_callback = _read_message

    @property
    def is_full(self) -> bool:
        """Whether OpenSSL remembers so many certificates that a new context should take over."""
        return len(self._known) >= _MAX_KNOWN

    def verify(self, connection: _Connection, presented: Sequence[bytes]) -> None:
        """Verify the certificates of a client. A refused one is unknown to OpenSSL, or `_Connection` refuses it."""
        try:
            verify_client(presented, self._roots, now=datetime.now(UTC))
        except VerificationError as error:
            # At a higher level, clients could fill the log.
            _log.debug("client certificate refused: %s", error)
            return
        connection.verified = presented[0]
        if presented[0] not in self._known:
            self._known.add(presented[0])
            _trust(self, presented[0])


def _read_message(
    connection: _Connection, direction: str, version: int, content_type: int, message_type: int, data: bytes
) -> None:
    """Find the certificates of a client in a TLS message (RFC 5246, 7.4.2 and RFC 8446, 4.4.2)."""
    if (direction, content_type, message_type) != ("read", _HANDSHAKE, _CERTIFICATE):
        return
    has_extensions = version == ssl.TLSVersion.TLSv1_3
    context_bytes = 1 + int.from_bytes(data[4:5]) if has_extensions else 0
    at = 4 + context_bytes + 3
    presented = []
    while at < len(data):
        length = int.from_bytes(data[at : at + 3])
        presented.append(data[at + 3 : at + 3 + length])
        at += 3 + length
        at += 2 + int.from_bytes(data[at : at + 2]) if has_extensions else 0
    if presented:
        context: Any = connection.context
        context.verify(connection, presented)


def _trust(context: ssl.SSLContext, certificate: bytes) -> None:
    """Let OpenSSL trust a client certificate with any usages."""
    encoded = base64.encodebytes(certificate + _TRUSTED_FOR_CLIENTS).decode()
    with as_file(f"-----BEGIN TRUSTED CERTIFICATE-----\n{encoded}-----END TRUSTED CERTIFICATE-----\n".encode()) as path:
        context.load_verify_locations(path)


def _read_roots(file: Path) -> Roots:
    try:
        roots = Roots(decode_pem(file.read_bytes()))
    except OSError as error:
        raise CertificateError(f"{describe_os_error(error)}; provide the CA certificates of clients") from None
    if roots.is_empty:
        problem = "has no certificate that can be parsed; provide the CA certificates of clients in PEM"
        raise CertificateError(f"{file} {problem}")
    return roots


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
        self._newest = create_server_context(files, client_authority)
        self.expiry = _read_expiry(files.certificate)
        self.context: Final = create_server_context(files, client_authority)
        self.context.sni_callback = self._select_context
        self.problem = ""

    def _select_context(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest

    def reload(self) -> bool:
        """Load changed files; return whether they are in use now. Unusable files leave the context as it is."""
        stamp = self._hash_files()
        if stamp == self._stamp and not getattr(self._newest, "is_full", False):
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
