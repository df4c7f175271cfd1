"""Reads a trust root: a file of Fulcio's certificates, or a Sigstore ``trusted_root.json`` with the keys of logs."""

import importlib
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography import x509

from fleethook.engines.crds.crds_errors import CRDsError, Exit


class Logged(NamedTuple):
    """The parts of a bundle that were verified together with its entry in the transparency log."""

    payload_type: str
    payload: bytes
    certificate: x509.Certificate


class Logs(Protocol):
    """The keys of the certificate transparency log and of the transparency log."""

    def verify_issued(self, certificate: x509.Certificate, issuers: list[x509.Certificate]) -> None:
        """Verify that the certificate transparency log has promised to list a certificate.

        Args:
            certificate: The certificate, with the signed timestamp of the log.
            issuers: Issuers of the certificate, nearest first.

        Raises:
            CRDsError: INTEGRITY.
        """

    def verify_bundle(self, text: bytes) -> Logged:
        """Verify a Sigstore bundle: signature, certificate, inclusion in the log, and the time of signing.

        Raises:
            CRDsError: INTEGRITY.
        """


class TrustRoot(NamedTuple):
    """Authorities, and the keys of logs if the file has them."""

    authorities: tuple[x509.Certificate, ...]
    logs: Logs | None


def read_trust_root(path: Path, data: bytes) -> TrustRoot:
    """Return the trust root in a file.

    Args:
        path: Path of the file, for messages and for the library that reads ``trusted_root.json``.
        data: Content of the file; PEM has authorities only.

    Raises:
        CRDsError: USAGE if it is neither, or if the library for ``trusted_root.json`` is missing.
    """
    if data.lstrip().startswith(b"{"):
        return _read_trusted_root(path)
    try:
        return TrustRoot(tuple(x509.load_pem_x509_certificates(data)), None)
    except (ValueError, x509.InvalidVersion) as error:
        text = f"--trust-root {path}: neither PEM certificates nor a Sigstore trusted_root.json: {error}"
        raise CRDsError(Exit.USAGE, text) from None


def _read_trusted_root(path: Path) -> TrustRoot:
    try:
        library = importlib.import_module("fleethook.engines.crds.provenance.sigstore_logs")
    except ImportError as error:
        text = (
            f"--trust-root {path}: a trusted_root.json takes the package sigstore ({error}): install "
            "fleethook[provenance], or give the certificates of Fulcio as PEM, which leaves the logs unverified"
        )
        raise CRDsError(Exit.USAGE, text) from None
    authorities, logs = library.read_trusted_root(path)
    return TrustRoot(authorities, logs)
