"""Where a CRD tarball comes from."""

import enum
import hashlib
from typing import NamedTuple


class Policy(enum.StrEnum):
    """When the origin is asked (``spec.crdTarball.crdDownloadPolicy``; Never is ours)."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Credentials(NamedTuple):
    """What an origin asks for; never shown."""

    headers: tuple[tuple[str, str], ...] = ()
    username: str = ""
    password: str = ""
    client_certificate_pem: bytes = b""
    client_key_pem: bytes = b""


class Source(NamedTuple):
    """A tarball over HTTP, and how to get at it."""

    url: str
    proxy_url: str = ""
    """Explicit; wins over the environment's."""
    no_proxy: tuple[str, ...] = ()
    sha256: str = ""
    """What it must be, hexadecimal; ``""`` for whatever comes."""
    mirrors: tuple[str, ...] = ()
    """Asked in order when the URL itself fails."""
    ca_pem: bytes = b""
    """Authorities to trust instead of the system's."""
    credentials: Credentials = Credentials()
    seconds: float = 300.0
    """For all of it."""
    max_bytes: int = 16 * 1024 * 1024

    @property
    def key(self) -> str:
        """The name of its cache entry, as the Go operator has it: the digest of the URL, and of nothing else."""
        return hashlib.sha256(self.url.strip().encode()).hexdigest()
