"""Validity of the authorities in a ``caBundle``, for ``fleethook doctor`` and the console. No I/O."""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

MIN_REMAINING: Final = timedelta(days=14)
"""An authority or a certificate that ends sooner needs attention: a rotation has both authorities for some days."""


class BundleError(ValueError):
    """A ``caBundle`` has no certificates that can be read."""


class Validity(NamedTuple):
    """The time in which a certificate is valid."""

    start: datetime
    end: datetime


def read_bundle(bundle: str) -> list[Validity]:
    """Return the validity of each authority of a ``caBundle`` (PEM in base64); raises BundleError."""
    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error):
        raise BundleError("caBundle is not PEM in base64") from None
    return [Validity(one.not_valid_before_utc, one.not_valid_after_utc) for one in found]


def find_end(authorities: Sequence[Validity], now: datetime) -> datetime | None:
    """Return when the last authority that is valid now ends, None if none is valid now."""
    return max((one.end for one in authorities if one.start <= now <= one.end), default=None)
