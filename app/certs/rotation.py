"""When to issue and when to trust: the life of an authority and its serving certificate, as a pure function.

A new authority is trusted before it signs and the old one is trusted after it has ceased to, so that at no moment
anybody meets a certificate that he has not been told to trust::

    authority A   sign ===================|- - trusted - -|
    authority B               |- announced|sign ====================
    caBundle      A           A+B                         B

Everything that decides is in the certificates themselves, so replicas that read the same Secret come to the same next
step, and whoever writes it first is right.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

from app.certs.authority import SERVING_LIFETIME, KeyPair, find_renewal_time, is_current, issue_serving, new_authority


class RotationPolicy(NamedTuple):
    """How long things live."""

    names: Sequence[str]
    """What the serving certificate is for: DNS names and IP addresses."""
    serving_lifetime: timedelta = SERVING_LIFETIME
    authority_lifetime: timedelta = timedelta(days=365)
    announcement: timedelta = timedelta(hours=1)
    """From a new authority being trusted to its first signature: time for every apiserver to have read caBundle."""
    overlap: timedelta = timedelta(days=1)
    """From that signature to the former authority's end: time for every replica to have loaded the new certificate."""


class Credentials(NamedTuple):
    """What is kept in the Secret."""

    authority: KeyPair
    """Who signs."""
    serving: KeyPair
    announced: KeyPair | None = None
    """Who will sign next, trusted already."""
    former: bytes | None = None
    """Certificate, PEM, of who signed before and is still trusted."""

    @property
    def bundle(self) -> bytes:
        """Everybody who is trusted, PEM: what ``caBundle`` has to hold."""
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
    """Return credentials to begin with."""
    authority = new_authority(now=now, lifetime=policy.authority_lifetime)
    return Credentials(authority, _issue_serving(authority, policy, now=now))


def _issue_serving(authority: KeyPair, policy: RotationPolicy, *, now: datetime) -> KeyPair:
    return issue_serving(authority, names=policy.names, now=now, lifetime=policy.serving_lifetime)


def advance(credentials: Credentials, policy: RotationPolicy, *, now: datetime) -> Credentials:
    """Return what the credentials should be ``now``: the same object where nothing is due.

    One step at a time: the next is found when this one has been stored.
    """
    authority, announced = credentials.authority, credentials.announced
    if authority.certificate.not_valid_after_utc <= now:
        # Everything was asleep through the whole rotation: nothing that is trusted is of use any more.
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
    """Return the data of the Secret."""
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
    """Return what a Secret's data holds.

    Raises:
        ValueError: A member is missing or cannot be read; the text names it and never shows it.
    """
    for name, what in _KEYS.items():
        if not data.get(name):
            raise ValueError(f"{name} ({what}) is missing")
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
