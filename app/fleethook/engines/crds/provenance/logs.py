"""The interface of a trust root's logs; the library that implements it is an optional dependency."""

from typing import NamedTuple, Protocol

from cryptography import x509


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
