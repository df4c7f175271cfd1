"""The TLS context of a running server, which reloads its certificate files.

OpenSSL's callback for server names (RFC 6066 section 3) gives each handshake the newest context. Open connections keep
their context. `ReloadingContext` builds a new context from changed files, so a certificate with a wrong key never
affects the context in use.
"""

import asyncio
import hashlib
import logging
import ssl
from pathlib import Path
from typing import Final

from cryptography import x509

from fleethook.cluster.certificates.certificate_files import CertificateError, CertificateFiles
from fleethook.model.formats.text import describe_os_error

_log: Final = logging.getLogger(__name__)

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
