"""TLS contexts for calls to webhooks, which trust the same certificates as Go's client."""

import base64
import functools
import ssl
from typing import Final

from app.outbound.credential import Credential

# Creating a context with the system's authorities takes about 10 ms. One is cached for each client certificate.
_MAX_CACHED_CONTEXTS: Final = 64
UNKNOWN_AUTHORITY: Final = "certificate signed by unknown authority"
# Codes of OpenSSL's x509_vfy.h with the messages of Go's crypto/x509, which users search for.
VERIFY_ERRORS: Final = {
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: f"{UNKNOWN_AUTHORITY} (it is self-signed)",
    **dict.fromkeys((19, 20, 21), UNKNOWN_AUTHORITY),
}
"""Problems of a certificate, by ``ssl.SSLCertVerificationError.verify_code``."""


class TrustError(ValueError):
    """The certificate authorities cannot be loaded."""


def create_context(ca_bundle: str, credential: Credential | None = None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a bundle and no others.

    Args:
        ca_bundle: PEM in base64; ``""`` for the system's authorities.
        credential: Its client certificate is presented, if it has one.

    Raises:
        TrustError: The bundle contains no certificate.
    """
    if not ca_bundle:
        return _create_system_context(credential if credential is not None and credential.has_certificate else None)
    # create_default_context(cadata="") would trust the system's authorities.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        # Comments between certificates may contain characters that are not ASCII, which OpenSSL refuses.
        context.load_verify_locations(cadata=base64.b64decode(ca_bundle, validate=True).decode("ascii", "ignore"))
    except (ValueError, ssl.SSLError) as error:
        raise TrustError("unable to load root certificates: unable to parse bytes as PEM block") from error
    if credential is not None:
        credential.load(context)
    return _verify_as_go(context)


@functools.lru_cache(maxsize=_MAX_CACHED_CONTEXTS)
def _create_system_context(credential: Credential | None) -> ssl.SSLContext:
    # Owners may share the context, which has 150 certificates: TLS sessions are not resumed with it.
    context = ssl.create_default_context()
    if credential is not None:
        credential.load(context)
    return _verify_as_go(context)


def _verify_as_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Verify as Go's crypto/x509 does: each certificate of the bundle is a root; strict RFC 5280 and CN are off."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    # kube-apiserver also uses HTTP/1.1 for webhooks, because HTTP/2 defeats load balancing (kubernetes #75791).
    context.set_alpn_protocols(["http/1.1"])
    return context
