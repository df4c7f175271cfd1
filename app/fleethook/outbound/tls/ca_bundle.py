"""The authorities of a ``caBundle``, which kube-apiserver stores without checking and parses at the first call."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from fleethook.model.formats.field_errors import Problem, too_long
from fleethook.model.json import JSON, decode_bytes

MAX_BUNDLE: Final = 1024 * 1024
"""Maximum characters of a CA bundle in base64: the limit of a Secret or ConfigMap. Mozilla's bundle has 300,000."""
MIN_REMAINING: Final = timedelta(days=14)
"""An authority or a certificate that ends sooner needs attention: a rotation has both authorities for some days."""


class BundleError(ValueError):
    """A ``caBundle`` has no certificates that can be read."""


class Validity(NamedTuple):
    """The time in which a certificate is valid."""

    start: datetime
    end: datetime


def read_bundle(bundle: str) -> list[Validity]:
    """Return the validity of each authority of a ``caBundle`` that can be used; raises BundleError without any."""
    from fleethook.outbound.tls.trust import TrustError, load_roots  # noqa: PLC0415 - cryptography takes long to import

    try:
        found = load_roots(bundle).list_periods() if bundle else []
    except TrustError:
        found = []
    if not found:
        raise BundleError("caBundle is not PEM in base64")
    return [Validity(*one) for one in found]


def find_end(authorities: Sequence[Validity], now: datetime) -> datetime | None:
    """Return when the last authority that is valid now ends, None if none is valid now."""
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
    from fleethook.outbound.tls.trust import TrustError, load_roots  # noqa: PLC0415 - cryptography takes long to import

    try:
        decode_bytes(bundle)
        load_roots(str(bundle))
    except TrustError as error:
        yield Problem(field, f"Invalid value: {error}")
    except ValueError:
        yield Problem(field, "Invalid value: unable to load root certificates: it is not PEM in base64")


def list_skipped(bundle: JSON) -> list[str]:
    """Return why certificates of a bundle are not used, if others are."""
    from fleethook.outbound.tls.trust import explain_certificates  # noqa: PLC0415 - as above

    try:
        problems = explain_certificates(decode_bytes(bundle))
    except ValueError:
        return []
    if all(problems):
        return []
    return [f"certificate {number} of {len(problems)}: {one}" for number, one in enumerate(problems, 1) if one]
