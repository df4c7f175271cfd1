"""The logs of a Sigstore ``trusted_root.json``, verified by sigstore-python; imported only if one is given.

Upstream: https://github.com/sigstore/sigstore-python, ``Verifier.verify_dsse``. It uses no network: all keys and
certificates are the file's, and an entry's inclusion is proven by the bundle itself.
"""

import logging
from pathlib import Path
from typing import Final

from cryptography import x509

# `Verifier` takes bundles only, so an envelope's certificate takes two private names of 4.x; tests run them.
from sigstore._internal.sct import verify_sct
from sigstore._internal.trust import KeyringPurpose
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.provenance_checks import Logged

# Its messages repeat parts of the file, without a limit of length.
logging.getLogger("sigstore").setLevel(logging.CRITICAL)
_MAX_REASON: Final = 300


class SigstoreLogs:
    """`Logs` of a trusted root."""

    def __init__(self, root: TrustedRoot) -> None:
        self._root: Final = root

    def verify_issued(self, certificate: x509.Certificate, issuers: list[x509.Certificate]) -> None:
        """Verify the signed certificate timestamp (RFC 6962) that a certificate holds."""
        try:
            verify_sct(certificate, issuers, self._root.ct_keyring(KeyringPurpose.VERIFY))
        except Exception as error:  # noqa: BLE001 - see _refuse
            raise _make_error("the certificate's entry in the certificate transparency log", error) from None

    def verify_bundle(self, text: bytes) -> Logged:
        """Verify a bundle with its entry in the transparency log."""
        try:
            bundle = Bundle.from_json(text)
            payload_type, payload = Verifier(trusted_root=self._root).verify_dsse(bundle, _AnyIdentity())
        except Exception as error:  # noqa: BLE001 - see _refuse
            raise _make_error("the Sigstore bundle", error) from None
        return Logged(payload_type, payload, bundle.signing_certificate)


def read_trusted_root(path: Path) -> tuple[tuple[x509.Certificate, ...], SigstoreLogs]:
    """Return the authorities and the logs of a ``trusted_root.json``; raises CRDsError USAGE."""
    try:
        root = TrustedRoot.from_file(str(path))
        return tuple(root.get_fulcio_certs()), SigstoreLogs(root)
    except Exception as error:  # noqa: BLE001 - see _refuse
        text = f"--trust-root {path}: not a Sigstore trusted_root.json: {_shorten_reason(error)}"
        raise CRDsError(Exit.USAGE, text) from None


class _AnyIdentity:
    """A policy of sigstore-python's that leaves identities to `fleethook.engines.crds.provenance.attestation`."""

    def verify(self, cert: x509.Certificate) -> None:
        """Accept all: the caller compares the identity, for both forms in the same way."""


def _make_error(subject: str, error: Exception) -> CRDsError:
    # sigstore-python reads foreign bytes with several parsers and lets their errors through (ValidationError, KeyError,
    # TypeError, struct.error); each one means that nothing is proven.
    return CRDsError(Exit.INTEGRITY, f"{subject} cannot be verified: {_shorten_reason(error)}")


def _shorten_reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"
