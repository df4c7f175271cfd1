"""The authorities that a download trusts, and the client certificate that it shows, over TLS."""

import base64
import ssl

from app.crds.failures import CRDsError, Exit
from app.crds.source import Source
from app.outbound.credential import Credential, CredentialError
from app.outbound.trust import TrustError, create_context


def build_tls_context(source: Source, *, identified: bool) -> ssl.SSLContext:
    """Return a context that trusts the source's authorities, or the system's if it has none.

    Args:
        source: Whose ``ca_pem`` and client certificate count.
        identified: Whether the client certificate is shown, which is for the source's own origin only.

    Raises:
        CRDsError: There is no certificate where one should be, or it does not fit its key.
    """
    given = source.credentials
    shown = given.client_certificate_pem if identified else b""
    try:
        credential = Credential(certificate_pem=shown, key_pem=given.client_key_pem if shown else b"")
        return create_context(base64.b64encode(source.ca_pem).decode(), credential)
    except TrustError:
        raise CRDsError(Exit.USAGE, "the CA bundle has no certificate in PEM form") from None
    except CredentialError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None
