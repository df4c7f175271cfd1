"""Whom a download trusts, and who it says it is, over TLS."""

import base64
import os
import ssl
import tempfile
from pathlib import Path

from app.crds.failures import CRDsError, Exit
from app.crds.source import Source
from app.outbound.trust import TrustError, trusting


def context_of(source: Source, *, identified: bool) -> ssl.SSLContext:
    """Return what trusts the source's authorities, or the system's if it has none.

    Args:
        source: Whose ``ca_pem`` and client certificate count.
        identified: Whether the client certificate is shown, which is for the source's own origin only.

    Raises:
        CRDsError: There is no certificate where one should be, or it does not fit its key.
    """
    try:
        context = trusting(base64.b64encode(source.ca_pem).decode())
    except TrustError:
        raise CRDsError(Exit.USAGE, "the CA bundle has no certificate in PEM form") from None
    certificate, key = source.credentials.client_certificate_pem, source.credentials.client_key_pem
    if not (identified and certificate):
        return context
    if not source.ca_pem:
        # The system's context is shared with others, who are not to show this certificate.
        context = ssl.create_default_context()
    with tempfile.TemporaryDirectory(prefix="fleethook-") as directory:
        _identify(context, Path(directory), certificate, key)
    return context


def _identify(context: ssl.SSLContext, directory: Path, certificate: bytes, key: bytes) -> None:
    # OpenSSL takes these from files only.
    certificate_file, key_file = _written(directory / "tls.crt", certificate), _written(directory / "tls.key", key)
    try:
        # With an empty password, since without one OpenSSL asks for it on the terminal.
        context.load_cert_chain(certificate_file, key_file, password="")
    except (ssl.SSLError, ValueError):
        text = "the client certificate and its key (PEM, not encrypted) cannot be used or do not fit each other"
        raise CRDsError(Exit.USAGE, text) from None


def _written(path: Path, content: bytes) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path
