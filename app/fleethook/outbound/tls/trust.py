"""Trusted certificates and TLS contexts for calls to webhooks and API servers, and the problems of a ``caBundle``.

kube-apiserver stores a ``caBundle`` without checking it, and parses it at the first call.
"""

import base64
import contextlib
import functools
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

from fleethook.model.formats.field_errors import Problem, too_long
from fleethook.model.json import JSON, decode_bytes
from fleethook.outbound.endpoint import Credential
from fleethook.outbound.tls.certificate import parse_certificate
from fleethook.outbound.tls.certificate_chain import Roots, is_light, verify
from fleethook.outbound.tls.certificate_der import CertificateError

# Creating a context with the system's authorities takes about 10 ms. One is cached for each client certificate.
_MAX_CACHED_CONTEXTS: Final = 64
_BEGIN: Final = b"-----BEGIN "
_END: Final = b"\n-----END "
_CERTIFICATE: Final = b"CERTIFICATE-----"
_BLANK: Final = b" \t\r"
_DER: Final = 2


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
    if roots.is_empty:
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


class UntrustedError(ssl.SSLCertVerificationError):
    """The certificates of a server are refused; the text is that of Go's crypto/x509."""


class HeavyError(ssl.SSLCertVerificationError):
    """Verifying the certificates would delay other calls.

    Attributes:
        presented: The certificates.
    """

    def __init__(self, presented: Sequence[bytes]) -> None:
        """Stop a handshake."""
        super().__init__(1, "the server presents many certificates, and different ones on each connection")
        self.presented: Final = presented


class _Connection(ssl.SSLObject):
    """Verifies the server before the event loop sends it the second message of the handshake."""

    context: "CallContext"
    _is_verified = False

    def do_handshake(self) -> None:
        """Read and write messages; the event loop sends them unless this function raises another error."""
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            # With TLS 1.2, the next message contains the client certificate.
            if presented := presented_certificates(self):
                self._verify(presented)
            raise
        # With TLS 1.3, the client's only message contains it.
        self._verify(presented_certificates(self))

    def _verify(self, presented: Sequence[bytes]) -> None:
        if not self._is_verified:
            self.context.check(presented, self.server_hostname or "")
            self._is_verified = True


class CallContext(ssl.SSLContext):
    """The context of calls to servers whose certificates `fleethook.outbound.tls.certificate_chain` verifies.

    OpenSSL refuses some certificates that Go accepts, so it verifies none. As with Go, a server that the bundle does
    not trust gets neither the client certificate nor a request.
    """

    sslobject_class = _Connection

    def __new__(cls, *_: object) -> Self:
        """Return a context for clients."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, roots: Roots, credential: Credential | None = None, admitted: Sequence[bytes] = ()) -> None:
        """Prepare.

        Args:
            roots: The trusted certificates.
            credential: Its client certificate is presented, if it has one.
            admitted: The chain of a server that is verified already.
        """
        super().__init__()
        self._roots: Final = roots
        self._credential: Final = credential
        self._admitted: Final = admitted
        self.check_hostname = False
        self.verify_mode = ssl.CERT_NONE
        self.options |= ssl.OP_NO_RENEGOTIATION
        _call_as_apiserver(self)
        if credential is not None:
            credential.load(self)

    def check(self, presented: Sequence[bytes], host: str) -> None:
        """Verify the certificates of a server; raises UntrustedError or HeavyError."""
        if presented == self._admitted:
            return
        if not is_light(presented, self._roots):
            raise HeavyError(presented)
        self._verify(presented, host)

    async def admit(self, presented: Sequence[bytes], host: str) -> "CallContext":
        """Verify the certificates of a HeavyError, and return a context that accepts them.

        Raises:
            UntrustedError: The certificates are refused.
        """
        import asyncio  # noqa: PLC0415 - commands that open no connection do without it

        await asyncio.to_thread(self._verify, presented, host)
        return CallContext(self._roots, self._credential, presented)

    def _verify(self, presented: Sequence[bytes], host: str) -> None:
        try:
            verify(presented, self._roots, host=host, now=datetime.now(UTC))
        except CertificateError as error:
            raise UntrustedError(1, str(error)) from None


def presented_certificates(connection: ssl.SSLObject) -> list[bytes]:
    """Return the certificates that a server has sent, in DER, its own first."""
    # Python 3.13 made this function public.
    source = connection if hasattr(connection, "get_unverified_chain") else cast("Any", connection)._sslobj  # noqa: SLF001
    found = source.get_unverified_chain() or ()
    return [one if isinstance(one, bytes) else one.public_bytes(_DER) for one in found]


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
    return _call_as_apiserver(context)


def _call_as_apiserver(context: ssl.SSLContext) -> ssl.SSLContext:
    # kube-apiserver also uses HTTP/1.1 for webhooks, because HTTP/2 defeats load balancing (kubernetes #75791).
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


def explain_certificates(pem: bytes) -> list[str]:
    """Return why each certificate of a bundle cannot be parsed, ``""`` if it can."""
    return [_explain_certificate(der) for der in decode_pem(pem)]


def _explain_certificate(der: bytes) -> str:
    try:
        parse_certificate(der)
    except CertificateError as error:
        return str(error)
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
MIN_REMAINING: Final = timedelta(days=14)
"""The remaining validity below which a certificate needs attention. During a rotation, old and new authorities overlap
for some days."""


class BundleError(ValueError):
    """A ``caBundle`` has no certificates that can be read."""


class Validity(NamedTuple):
    """The time in which a certificate is valid."""

    start: datetime
    end: datetime


def read_bundle(bundle: str) -> list[Validity]:
    """Return the validity of each usable authority of a ``caBundle``; raises BundleError if there is none."""
    try:
        found = load_roots(bundle).list_periods() if bundle else []
    except TrustError:
        found = []
    if not found:
        raise BundleError("caBundle is not PEM in base64")
    return [Validity(*one) for one in found]


def find_end(authorities: Sequence[Validity], now: datetime) -> datetime | None:
    """Return the latest end of the authorities that are valid now, None if none is valid now."""
    return max((one.end for one in authorities if one.start <= now <= one.end), default=None)


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
        problems = explain_certificates(decode_bytes(bundle))
    except ValueError:
        return []
    if all(problems):
        return []
    return [f"certificate {number} of {len(problems)}: {one}" for number, one in enumerate(problems, 1) if one]
