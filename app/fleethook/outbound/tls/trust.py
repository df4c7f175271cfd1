"""Trusted certificates and TLS contexts for calls to webhooks and API servers, and the problems of a ``caBundle``.

kube-apiserver stores a ``caBundle`` without checking it, and parses it at the first call.
"""

import base64
import contextlib
import functools
import ssl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from fleethook.model.formats.field_errors import Problem, too_long
from fleethook.model.json import JSON, decode_bytes
from fleethook.outbound.endpoint import Credential
from fleethook.outbound.tls.server_certificates import MALFORMED, Roots

# Creating a context with the system's authorities takes about 10 ms. One is cached for each client certificate.
_MAX_CACHED_CONTEXTS: Final = 64
_BEGIN: Final = b"-----BEGIN "
_END: Final = b"\n-----END "
_CERTIFICATE: Final = b"CERTIFICATE-----"
_BLANK: Final = b" \t\r"


class TrustError(ValueError):
    """The certificate authorities cannot be loaded."""


def load_roots(ca_bundle: str) -> Roots:
    """Return the certificates of a bundle, without blocks that Go skips.

    Args:
        ca_bundle: PEM in base64; ``""`` for the system's authorities.

    Raises:
        TrustError: The bundle contains no certificate.
    """
    if not ca_bundle:
        return _load_system_roots()
    roots = Roots(_decode_bundle(ca_bundle))
    if not roots.certificates:
        raise TrustError(f"unable to load root certificates: {_explain_bundle(ca_bundle)}")
    return roots


def create_context(ca_bundle: str, credential: Credential | None = None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a bundle and no others, by the rules of OpenSSL.

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
    encoded = [der for der in _decode_bundle(ca_bundle) if _explain_certificate(der) == ""]
    try:
        context.load_verify_locations(cadata=b"".join(encoded))
    except (ValueError, ssl.SSLError) as error:
        raise TrustError(f"unable to load root certificates: {_explain_bundle(ca_bundle)}") from error
    if credential is not None:
        credential.load(context)
    return _verify_as_go(context)


@functools.lru_cache(maxsize=1)
def _load_system_roots() -> Roots:
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    if paths.capath:
        files += sorted(Path(paths.capath).iterdir())
    return Roots(der for file in files if file.is_file() for der in decode_pem(file.read_bytes()))


@functools.lru_cache(maxsize=_MAX_CACHED_CONTEXTS)
def _create_system_context(credential: Credential | None) -> ssl.SSLContext:
    # The context has 150 certificates, so owners share it. That is safe, because it resumes no TLS sessions.
    context = ssl.create_default_context()
    if credential is not None:
        credential.load(context)
    return _verify_as_go(context)


def _verify_as_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set options close to Go's crypto/x509: each certificate of a bundle is a root; strict RFC 5280 and CN are off."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    return context


def _decode_bundle(ca_bundle: str) -> list[bytes]:
    try:
        return list(decode_pem(decode_bytes(ca_bundle)))
    except ValueError:
        return []


def _explain_bundle(ca_bundle: str) -> str:
    """Return why a bundle without a usable certificate is refused, as client-go does (transport/transport.go)."""
    problems = (problem for der in _decode_bundle(ca_bundle) if (problem := _explain_certificate(der)))
    problem = next(problems, "")
    return f"failed to parse certificate: {problem}" if problem else "unable to parse bytes as PEM block"


def _explain_certificate(der: bytes) -> str:
    try:
        x509.load_der_x509_certificate(der)
    except MALFORMED:
        return "x509: malformed certificate"
    return ""


def decode_pem(text: bytes) -> Iterator[bytes]:
    """Yield the content of each ``CERTIFICATE`` block without headers, as Go's encoding/pem finds blocks.

    Text around blocks is skipped, and so are blocks that are malformed or have another label.
    """
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end + 1)
        start_of_end, start = end, end + len(_END)
        if begin < 0 or (begin > 0 and text[begin - 1 : begin] != b"\n"):
            continue
        label, _, body = text[begin + len(_BEGIN) : start_of_end + 1].partition(b"\n")
        line_end = text.find(b"\n", start)
        label, last = label.rstrip(_BLANK), text[start : line_end if line_end >= 0 else len(text)].rstrip(_BLANK)
        if label != _CERTIFICATE or last != label or b":" in body.partition(b"\n")[0]:
            continue
        encoded = body.translate(None, b" \t\r\n")
        if len(encoded) % 4 == 0:
            with contextlib.suppress(ValueError):
                yield base64.b64decode(encoded, validate=True)


MAX_BUNDLE: Final = 1024 * 1024
"""Maximum characters of a CA bundle in base64: the limit of a Secret or ConfigMap. Mozilla's bundle has 300,000."""


class BundleError(ValueError):
    """A ``caBundle`` has no certificates that can be read."""


class Validity(NamedTuple):
    """The time in which a certificate is valid."""

    start: datetime
    end: datetime


def read_bundle(bundle: str) -> list[Validity]:
    """Return the validity of each usable authority of a ``caBundle``; raises BundleError if there is none."""
    try:
        found = list(load_roots(bundle).certificates.values()) if bundle else []
    except TrustError:
        found = []
    if not found:
        raise BundleError("caBundle is not PEM in base64")
    return [Validity(one.not_valid_before_utc, one.not_valid_after_utc) for one in found]


def bundle_problems(bundle: JSON, field: str) -> Iterator[Problem]:
    """Yield the problems of a CA bundle with which every call fails.

    As in Go, one certificate that can be parsed is enough (client-go v0.36 transport/transport.go, rootCertPool).
    """
    if bundle in (None, ""):
        return
    if isinstance(bundle, str) and len(bundle) > MAX_BUNDLE:
        yield too_long(field, MAX_BUNDLE)
        return

    try:
        decode_bytes(bundle)
        load_roots(str(bundle))
    except TrustError as error:
        yield Problem(field, f"Invalid value: {error}")
    except ValueError:
        yield Problem(field, "Invalid value: unable to load root certificates: it is not PEM in base64")


def list_skipped(bundle: JSON) -> list[str]:
    """Return one text for each certificate of a bundle that is skipped, with the reason.

    A bundle without a usable certificate gives no texts, because `bundle_problems` refuses it.
    """
    try:
        problems = list(map(_explain_certificate, decode_pem(decode_bytes(bundle))))
    except ValueError:
        return []
    if all(problems):
        return []
    return [f"certificate {number} of {len(problems)}: {one}" for number, one in enumerate(problems, 1) if one]
