"""The TLS context of a running server, replaced when its files change and never half.

Every handshake is handed the newest context by the callback that TLS has for server names (RFC 6066 section 3);
connections that stand keep the one they were made with. A pair that does not fit is found while a context of its own
is made from it, so the one in use is never touched.
"""

import asyncio
import hashlib
import logging
import ssl
from pathlib import Path
from typing import Final

from app.certs.files import CertificateError, CertificateFiles

_log: Final = logging.getLogger(__name__)

# A mounted Secret takes up to a minute to change; looking at three small files this often costs nothing.
_POLL_SECONDS: Final = 2.0


def create_server_context(files: CertificateFiles, client_authority: Path | None) -> ssl.SSLContext:
    """Return a TLS context that serves with ``files``; raises CertificateError if they cannot be used.

    Args:
        files: The certificate and its key.
        client_authority: Who must have issued a client's certificate, if it shows one. Showing none is left to the
            routes to refuse: a kubelet that probes has none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # An apiserver asks for HTTP/1.1 only, and this server speaks nothing else.
    context.set_alpn_protocols(["http/1.1"])
    # An apiserver's client keeps no sessions (client-go sets no cache for them), and making two tickets for each
    # connection is an eighth to a fifth of its handshake.
    context.num_tickets = 0
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(
            f"{files.certificate} and {files.key} cannot be used: {error}; they must be a PEM certificate and its key"
        ) from None
    if client_authority is not None:
        try:
            context.load_verify_locations(cafile=str(client_authority))
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(
                f"{client_authority} cannot be used: {error}; it must hold, in PEM, the authorities of clients"
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
        # Tickets would let a client go on without showing a certificate that is no longer trusted.
        context.options |= ssl.OP_NO_TICKET
    return context


class ReloadingContext:
    """A TLS context that follows its files.

    Attributes:
        context: What to listen with; stays the same object.
        problem: Why the files as they are now are not used, ``""`` where they are.
    """

    def __init__(self, files: CertificateFiles, client_authority: Path | None = None) -> None:
        """Read the files; raises CertificateError if they cannot be used."""
        self._files: Final = files
        self._client_authority: Final = client_authority
        self._stamp = self._hash_files()
        self._newest = create_server_context(files, client_authority)
        self.context: Final = create_server_context(files, client_authority)
        self.context.sni_callback = self._select_context
        self.problem = ""

    def _select_context(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest

    def reload(self) -> bool:
        """Use the files as they are now, if they changed and can be used; return whether that was done."""
        stamp = self._hash_files()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._newest = create_server_context(self._files, self._client_authority)
        except CertificateError as error:
            self.problem = str(error)
            _log.error("the certificate in use is kept: %s", error)
            return False
        self.problem = ""
        _log.info("certificate replaced", extra={"fields": {"file": str(self._files.certificate)}})
        return True

    def _hash_files(self) -> bytes:
        """Return a digest of what the files hold, whole or not."""
        digest = hashlib.sha256()
        for path in (self._files.certificate, self._files.key, self._client_authority):
            try:
                digest.update(path.read_bytes() if path else b"")
            except OSError as error:
                digest.update(str(error.errno).encode())
            digest.update(b"\0")
        return digest.digest()

    async def watch(self) -> None:
        """Reload whenever the files change, until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self.reload()
