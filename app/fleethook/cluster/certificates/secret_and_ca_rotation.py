"""Keeps certificates in a Secret that all replicas share.

Any replica may write the next step of a rotation. The Secret's resourceVersion lets one write succeed, and the other
replicas read its result. No leader election is needed.

Each step is a pure function of the certificates and the time. Clients trust a new CA before it signs, and the former CA
after it stopped signing, so they trust the serving certificate at all times::

    CA A       signs ==================|- - trusted - -|
    CA B                   |- announced|signs ===================
    caBundle   A           A+B                         B
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from fleethook.cluster.api_errors import CONFLICT, NOT_FOUND, APIError, UnreachableError, get_object
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.certificates.authority_and_serving_certificate import (
    SERVING_LIFETIME,
    CertificateFiles,
    KeyPair,
    find_renewal_time,
    is_current,
    issue_serving,
    new_authority,
    write_file,
)
from fleethook.model.json import JSONObject, as_object


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


class StoredCertificates(NamedTuple):
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


_BUNDLE: Final = "ca-bundle.crt"
_ANNOUNCED: Final = ("ca-announced.crt", "ca-announced.key")
_FORMER: Final = "ca-former.crt"


def issue_credentials(policy: RotationPolicy, *, now: datetime) -> StoredCertificates:
    """Return new credentials for an empty or unusable Secret."""
    authority = new_authority(now=now, lifetime=policy.authority_lifetime)
    return StoredCertificates(authority, _issue_serving(authority, policy, now=now))


def _issue_serving(authority: KeyPair, policy: RotationPolicy, *, now: datetime) -> KeyPair:
    return issue_serving(authority, names=policy.names, now=now, lifetime=policy.serving_lifetime)


def advance(credentials: StoredCertificates, policy: RotationPolicy, *, now: datetime) -> StoredCertificates:
    """Return the credentials after the step that is due ``now``, or the same object if none is due.

    Each call takes one step only. The caller stores it before the next one.
    """
    authority, announced = credentials.authority, credentials.announced
    if authority.certificate.not_valid_after_utc <= now:
        # No replica ran during the rotation, and the trusted CA has expired.
        return issue_credentials(policy, now=now)
    if announced is not None and announced.certificate.not_valid_before_utc + policy.announcement <= now:
        return StoredCertificates(
            announced, _issue_serving(announced, policy, now=now), None, authority.certificate_pem
        )
    if announced is None and credentials.former is None and find_renewal_time(authority.certificate) <= now:
        return credentials._replace(announced=new_authority(now=now, lifetime=policy.authority_lifetime))
    if not is_current(credentials.serving, authority, names=policy.names, now=now):
        return credentials._replace(serving=_issue_serving(authority, policy, now=now))
    if credentials.former is not None:
        signed = credentials.serving.certificate.not_valid_before_utc
        if signed + policy.overlap <= now:
            return credentials._replace(former=None)
    return credentials


def to_data(credentials: StoredCertificates) -> dict[str, bytes]:
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


def from_data(data: dict[str, bytes]) -> StoredCertificates:
    """Return the credentials in the data of a Secret.

    Raises:
        ValueError: A value is missing or unusable. The text names it and never shows it.
    """
    former = data.get(_FORMER) or None
    if former is not None and not _is_certificate(former):
        raise ValueError(f"{_FORMER} is not a readable certificate")
    return StoredCertificates(
        _load_pair(data, "ca.crt", "ca.key"),
        _load_pair(data, "tls.crt", "tls.key"),
        _load_pair(data, *_ANNOUNCED) if all(data.get(name) for name in _ANNOUNCED) else None,
        former,
    )


def _load_pair(data: dict[str, bytes], certificate: str, key: str) -> KeyPair:
    try:
        pair = KeyPair(data[certificate], data[key])
        fits = pair.key.public_key() == pair.certificate.public_key()
    except (KeyError, ValueError, TypeError):
        fits = False
    if not fits:
        raise ValueError(f"{certificate} and {key} are not a certificate and its key")
    return pair


def _is_certificate(text: bytes) -> bool:
    try:
        return bool(x509.load_pem_x509_certificate(text))
    except ValueError:
        return False


_log: Final = logging.getLogger(__name__)

_MAX_TRIES: Final = 10
# ``fleethook uninstall`` finds the Secret by it.
_LABELS: Final = {"app.kubernetes.io/name": "fleethook"}


class SecretName(NamedTuple):
    """The namespace and name of a Secret."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The API path of the Secret."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}"


class SecretStore:
    """Rotates the credentials in a Secret and writes them to files.

    Attributes:
        files: The paths of the files.
        credentials: The credentials in the files; None before the first `ensure`.
    """

    def __init__(
        self,
        connection: Connection,
        secret: SecretName,
        policy: RotationPolicy,
        directory: Path,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        check_seconds: float,
    ) -> None:
        """Store the arguments; `ensure` reads the Secret.

        Args:
            connection: The connection to the API server.
            secret: The name of the Secret.
            policy: The names and lifetimes of certificates.
            directory: The directory for the files, in a memory-backed volume; `ReloadingContext` reads them.
            now: Returns the current time.
            check_seconds: Seconds between the checks of `run`.
        """
        self._connection: Final = connection
        self._secret: Final = secret
        self._policy: Final = policy
        self._now: Final = now
        self._check_seconds: Final = check_seconds
        self.files: Final = CertificateFiles(
            directory / "tls.crt", directory / "tls.key", directory / "ca.crt", created=False
        )
        self.credentials: StoredCertificates | None = None

    async def ensure(self) -> StoredCertificates:
        """Take the step that is due, write the files, and return the credentials.

        Raises:
            APIError: The API server rejected reading or writing the Secret.
            UnreachableError: The API server does not answer.
        """
        for _ in range(_MAX_TRIES):
            stored = await get_object(self._connection, self._secret.path)
            held = self._parse(stored)
            now = self._now()
            certificates = (
                issue_credentials(self._policy, now=now) if held is None else advance(held, self._policy, now=now)
            )
            if certificates is held or await self._write(stored, certificates):
                self._publish(certificates)
                return certificates
        raise APIError(
            CONFLICT, "Conflict", f"other writers changed Secret {'/'.join(self._secret)} {_MAX_TRIES} times"
        )

    async def run(self) -> None:
        """Call `ensure` every ``check_seconds``, until cancelled."""
        while True:
            await asyncio.sleep(self._check_seconds)
            try:
                await self.ensure()
            except (APIError, UnreachableError, OSError) as error:
                _log.warning("cannot check the certificates in Secret %s: %s", "/".join(self._secret), error)

    def _parse(self, stored: JSONObject | None) -> StoredCertificates | None:
        data = as_object((stored or {}).get("data"))
        if not data:
            return None  # The Secret is missing, or a chart created it without data.
        try:
            return from_data({name: base64.b64decode(text) for name, text in data.items()})
        except ValueError as error:
            _log.error("Secret %s is unusable and gets new credentials: %s", "/".join(self._secret), error)
            return None

    async def _write(self, stored: JSONObject | None, credentials: StoredCertificates) -> bool:
        """Write the Secret; return False if another writer changed or deleted it first."""
        data = {name: base64.b64encode(value).decode() for name, value in to_data(credentials).items()}
        metadata: JSONObject = dict(stored["metadata"]) if stored else {"name": self._secret.name}
        metadata.setdefault("namespace", self._secret.namespace)
        metadata.pop("managedFields", None)
        metadata["labels"] = {**(metadata.get("labels") or {}), **_LABELS}
        kind = stored.get("type") if stored else "Opaque"
        body = {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "data": data}
        method, path = ("PUT", self._secret.path) if stored else ("POST", self._secret.path.rpartition("/")[0])
        try:
            await self._connection.request(method, path, body=body)
        except APIError as error:
            # Not found: the Secret was deleted after it was read. For POST, the namespace does not exist.
            if error.code == CONFLICT or (error.code == NOT_FOUND and method == "PUT"):
                return False
            raise
        _log.info("certificates renewed", extra={"fields": {"secret": "/".join(self._secret)}})
        return True

    def _publish(self, credentials: StoredCertificates) -> None:
        """Write changed credentials to the files.

        A reader between two writes gets a certificate with the wrong key. `ReloadingContext` then keeps its context and
        reads the files again.
        """
        former = self.credentials
        self.credentials = credentials
        if former is not None and former == credentials:
            return
        self.files.key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.files.key, credentials.serving.key_pem, mode=0o600)
        write_file(self.files.certificate, credentials.serving.certificate_pem, mode=0o644)
        write_file(self.files.authority_certificate, credentials.bundle, mode=0o644)
