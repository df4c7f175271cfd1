"""Builds the TLS context of a download: trusted authorities and client certificate."""

import base64
import ssl

from app.crds.failures import CRDsError, Exit
from app.crds.source import Source
from app.outbound.credential import Credential, CredentialError
from app.outbound.trust import TrustError, create_context


def build_tls_context(source: Source, *, identified: bool) -> ssl.SSLContext:
    """Return a TLS context that trusts the source's authorities, or the system's if the source has none.

    Args:
        source: The source with ``ca_pem`` and client certificate.
        identified: Present the client certificate. Only for the source's own origin.

    Raises:
        CRDsError: A certificate is missing or invalid, or does not match its key.
    """
    given = source.credentials
    shown = given.client_certificate_pem if identified else b""
    try:
        credential = Credential(certificate_pem=shown, key_pem=given.client_key_pem if shown else b"")
        return create_context(base64.b64encode(source.ca_pem).decode(), credential)
    except TrustError:
        raise CRDsError(Exit.USAGE, "the CA bundle has no PEM certificate") from None
    except CredentialError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None
