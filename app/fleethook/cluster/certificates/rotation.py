"""Decides, as a pure function of time, when to issue a CA and a serving certificate and which CAs to trust.

Clients trust a new CA before it signs, and the former CA after it stopped signing. Every client therefore trusts the
serving certificate at all times::

    CA A       signs ==================|- - trusted - -|
    CA B                   |- announced|signs ===================
    caBundle   A           A+B                         B

Each decision depends only on the certificates and the time. Replicas that read the same Secret compute the same next
step, so it does not matter which of them writes it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

from fleethook.cluster.certificates.authority import (
    SERVING_LIFETIME,
    KeyPair,
    find_renewal_time,
    is_current,
    issue_serving,
    new_authority,
)


class RotationPolicy(NamedTuple):
    """The names of the serving certificate, and all lifetimes and delays."""

    names: Sequence[str]
    """The DNS names and IP addresses of the serving certificate."""
    serving_lifetime: timedelta = SERVING_LIFETIME
    authority_lifetime: timedelta = timedelta(days=365)
    announcement: timedelta = timedelta(hours=1)
    """The time between trusting a new CA and its first signature, in which every API server reads caBundle."""
    overlap: timedelta = timedelta(days=1)
    """The time between that signature and dropping the former CA, in which every replica loads the certificate."""


class Credentials(NamedTuple):
    """The certificates and keys in the Secret."""

    authority: KeyPair
    """The CA that signs."""
    serving: KeyPair
    """The serving certificate."""
    announced: KeyPair | None = None
    """The next CA, which clients already trust."""
    former: bytes | None = None
    """The certificate of the previous CA in PEM, which clients still trust."""

    @property
    def bundle(self) -> bytes:
        """The certificates of all trusted CAs in PEM, for ``caBundle``."""
        announced = self.announced.certificate_pem if self.announced else b""
        return self.authority.certificate_pem + announced + (self.former or b"")


_KEYS: Final = {
    "ca.crt": "the authority that signs",
    "ca.key": "its key",
    "tls.crt": "the serving certificate",
    "tls.key": "its key",
}
_BUNDLE: Final = "ca-bundle.crt"
_ANNOUNCED: Final = ("ca-announced.crt", "ca-announced.key")
_FORMER: Final = "ca-former.crt"


def issue_credentials(policy: RotationPolicy, *, now: datetime) -> Credentials:
    """Return new credentials for an empty or unusable Secret."""
    authority = new_authority(now=now, lifetime=policy.authority_lifetime)
    return Credentials(authority, _issue_serving(authority, policy, now=now))


def _issue_serving(authority: KeyPair, policy: RotationPolicy, *, now: datetime) -> KeyPair:
    return issue_serving(authority, names=policy.names, now=now, lifetime=policy.serving_lifetime)


def advance(credentials: Credentials, policy: RotationPolicy, *, now: datetime) -> Credentials:
    """Return the credentials after the step that is due ``now``, or the same object if none is due.

    Each call takes one step only. The caller stores it before the next one.
    """
    authority, announced = credentials.authority, credentials.announced
    if authority.certificate.not_valid_after_utc <= now:
        # No replica ran during the rotation, and the trusted CA has expired.
        return issue_credentials(policy, now=now)
    if announced is not None and announced.certificate.not_valid_before_utc + policy.announcement <= now:
        return Credentials(announced, _issue_serving(announced, policy, now=now), None, authority.certificate_pem)
    if announced is None and credentials.former is None and find_renewal_time(authority.certificate) <= now:
        return credentials._replace(announced=new_authority(now=now, lifetime=policy.authority_lifetime))
    if not is_current(credentials.serving, authority, names=policy.names, now=now):
        return credentials._replace(serving=_issue_serving(authority, policy, now=now))
    if credentials.former is not None:
        signed = credentials.serving.certificate.not_valid_before_utc
        if signed + policy.overlap <= now:
            return credentials._replace(former=None)
    return credentials


def to_data(credentials: Credentials) -> dict[str, bytes]:
    """Return the data of the Secret for ``credentials``."""
    data = {
        "ca.crt": credentials.authority.certificate_pem,
        "ca.key": credentials.authority.key_pem,
        "tls.crt": credentials.serving.certificate_pem,
        "tls.key": credentials.serving.key_pem,
        _BUNDLE: credentials.bundle,
    }
    if credentials.announced is not None:
        data |= zip(_ANNOUNCED, credentials.announced, strict=True)
    if credentials.former is not None:
        data[_FORMER] = credentials.former
    return data


def from_data(data: dict[str, bytes]) -> Credentials:
    """Return the credentials in the data of a Secret.

    Raises:
        ValueError: A key of the data is missing or unreadable. The text names the key and never shows its value.
    """
    for name, description in _KEYS.items():
        if not data.get(name):
            raise ValueError(f"{name} ({description}) is missing")
    credentials = Credentials(
        _load_pair(data, "ca.crt", "ca.key"),
        _load_pair(data, "tls.crt", "tls.key"),
        _load_pair(data, *_ANNOUNCED) if all(data.get(name) for name in _ANNOUNCED) else None,
        data.get(_FORMER) or None,
    )
    if credentials.former is not None:
        _load_certificate(credentials.former, _FORMER)
    return credentials


def _load_pair(data: dict[str, bytes], certificate: str, key: str) -> KeyPair:
    pair = KeyPair(data[certificate], data[key])
    public = _load_certificate(pair.certificate_pem, certificate).public_key()
    try:
        fits = pair.key.public_key() == public
    except (ValueError, TypeError):
        raise ValueError(f"{key} is not a readable EC key") from None
    if not fits:
        raise ValueError(f"{key} is not the key of {certificate}")
    return pair


def _load_certificate(text: bytes, name: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text)
    except ValueError:
        raise ValueError(f"{name} is not a readable certificate") from None
