"""Problems of a ``caBundle``, which kube-apiserver stores without checking and parses at each first call."""

import base64
from collections.abc import Iterator
from typing import Final

from app.model.field_errors import Problem, too_long
from app.model.json import JSON

MAX_BUNDLE: Final = 1024 * 1024
"""Maximum characters of a CA bundle in base64: the limit of a Secret or ConfigMap. Mozilla's bundle has 300,000."""
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")


def bundle_problems(bundle: JSON, field: str) -> Iterator[Problem]:
    """Yield the problems of a CA bundle with which every call fails.

    As in Go, one certificate that can be parsed is enough (client-go v0.36 transport/transport.go, rootCertPool).
    """
    if bundle in (None, ""):
        return
    if isinstance(bundle, str) and len(bundle) > MAX_BUNDLE:
        yield too_long(field, MAX_BUNDLE)
        return
    from app.outbound.trust import TrustError, load_roots  # noqa: PLC0415 - cryptography takes long to import

    try:
        decode_bundle(bundle)
        load_roots(str(bundle))
    except TrustError as error:
        yield Problem(field, f"Invalid value: {error}")
    except ValueError:
        yield Problem(field, "Invalid value: unable to load root certificates: it is not PEM in base64")


def list_skipped(bundle: JSON) -> list[str]:
    """Return why certificates of a bundle are not used, if others are."""
    from app.outbound.trust import explain_certificates  # noqa: PLC0415 - as above

    try:
        problems = explain_certificates(decode_bundle(bundle))
    except ValueError:
        return []
    if all(problems):
        return []
    return [f"certificate {number} of {len(problems)}: {one}" for number, one in enumerate(problems, 1) if one]


def decode_bundle(bundle: JSON) -> bytes:
    """Decode a bundle as Go's encoding/base64 does, which skips line ends; raises ValueError."""
    if not isinstance(bundle, str):
        raise ValueError(f"a bundle is a string, not {type(bundle).__name__}")  # noqa: TRY004 - as for a wrong string
    return base64.b64decode(bundle.translate(_LINE_ENDS), validate=True)
