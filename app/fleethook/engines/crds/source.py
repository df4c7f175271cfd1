"""The origin of a CRD tarball: its URL, and the ways and credentials to reach it."""

import enum
import hashlib
from typing import NamedTuple


class Policy(enum.StrEnum):
    """When to send a request to the origin (``spec.crdTarball.crdDownloadPolicy``; upstream has no ``Never``)."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Credentials(NamedTuple):
    """Credentials for an origin; never printed."""

    headers: tuple[tuple[str, str], ...] = ()
    username: str = ""
    password: str = ""
    client_certificate_pem: bytes = b""
    client_key_pem: bytes = b""


class Source(NamedTuple):
    """A tarball over HTTP, and the settings of its download."""

    url: str
    proxy_url: str = ""
    """An explicit proxy; it takes precedence over those of the environment."""
    no_proxy: tuple[str, ...] = ()
    sha256: str = ""
    """The expected digest, hexadecimal; ``""`` for any."""
    mirrors: tuple[str, ...] = ()
    """URLs to try in order if the first one fails."""
    ca_pem: bytes = b""
    """Certificate authorities to trust instead of those of the system."""
    credentials: Credentials = Credentials()
    seconds: float = 300.0
    """Limit of the whole download, retries and mirrors included."""
    max_bytes: int = 16 * 1024 * 1024

    @property
    def key(self) -> str:
        """The name of the cache entry: the SHA-256 digest of the URL alone, as in Karmada's operator."""
        return hashlib.sha256(self.url.strip().encode()).hexdigest()
