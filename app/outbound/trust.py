"""Whom a TLS connection to a webhook trusts, as Go's client does with the same bytes."""

import base64
import functools
import ssl
from typing import Final

from app.outbound.credential import Credential

# A context of the system's authorities takes some 10 ms to make; these are those of users with a certificate.
_REMEMBERED: Final = 64
UNKNOWN_AUTHORITY: Final = "certificate signed by unknown authority"
# OpenSSL's x509_vfy.h, in the words of Go's crypto/x509, which people search for.
VERIFY_ERRORS: Final = {
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: f"{UNKNOWN_AUTHORITY} (it is self-signed)",
    **dict.fromkeys((19, 20, 21), UNKNOWN_AUTHORITY),
}
"""Faults of a certificate, by ``ssl.SSLCertVerificationError.verify_code``."""


class TrustError(ValueError):
    """Authorities that cannot be loaded."""


def trusting(ca_bundle: str, credential: Credential | None = None) -> ssl.SSLContext:
    """Return what trusts a bundle of authorities, and nobody else.

    Args:
        ca_bundle: PEM, base64; ``""`` for the system's authorities.
        credential: Its client certificate is shown, if it has one.

    Raises:
        TrustError: There is no certificate in it.
    """
    if not ca_bundle:
        return _system(credential if credential is not None and credential.has_certificate else None)
    # Not create_default_context(cadata=...): of an empty text it makes trust in the system's authorities.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        # Comments between certificates may be in any language, and are none of OpenSSL's business.
        context.load_verify_locations(cadata=base64.b64decode(ca_bundle, validate=True).decode("ascii", "ignore"))
    except (ValueError, ssl.SSLError) as error:
        raise TrustError("unable to load root certificates: unable to parse bytes as PEM block") from error
    if credential is not None:
        credential.load(context)
    return _as_go(context)


@functools.lru_cache(maxsize=_REMEMBERED)
def _system(credential: Credential | None) -> ssl.SSLContext:
    # Shared, since it is 150 certificates and tells nobody apart: sessions are not resumed with it.
    context = ssl.create_default_context()
    if credential is not None:
        credential.load(context)
    return _as_go(context)


def _as_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Judge as crypto/x509 does: any certificate of the bundle is a root, RFC 5280's letter and the CN do not count."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    # kube-apiserver speaks HTTP/1.1 to webhooks, too: one connection of HTTP/2 is never balanced (kubernetes #75791).
    context.set_alpn_protocols(["http/1.1"])
    return context
