"""Karmada's ``operator.karmada.io/v1alpha1``: the fields of an instance that select its CRD tarball.

The fields are those of karmada-io/karmada (operator/pkg/apis/operator/v1alpha1), and extensions of fleethook, which
their descriptions mark. All other fields belong to Karmada's operator; fleethook neither describes nor changes them.
"""

import enum
from typing import Annotated, Final, Literal

import msgspec

from fleethook.model.gvk import GroupKind

__all__ = ["CRDTarball", "HTTPSource", "LocalSource", "ProxyConfig", "SecretReference"]

GROUP: Final = "operator.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

KARMADA: Final = GroupKind(GROUP, "Karmada")

MAX_TIMEOUT_SECONDS: Final = 3600
MAX_TARBALL_BYTES: Final = 16 * 1024 * 1024
"""The limit of a tarball in a download, in a file and in the cache: a release has 90 KB."""
SHA256_FORM: Final = "[0-9a-fA-F]{64}"

OPEN: Final = msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})


class Policy(enum.StrEnum):
    """When to send a request to the origin (``spec.crdTarball.crdDownloadPolicy``; upstream has no ``Never``)."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class API(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Common options: JSON names in camel case, unknown fields allowed, defaults omitted."""


class SecretReference(API, frozen=True):
    """A Secret in the namespace of the instance."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    """Name of the Secret."""


class ProxyConfig(API, frozen=True):
    """The proxy for requests to the origin."""

    proxy_url: str = msgspec.field(name="proxyURL")
    """URL of the proxy: http or https; only Karmada's operator uses socks5 and socks5h."""
    secret_ref: SecretReference | None = None
    """Extension: username and password for the proxy (kubernetes.io/basic-auth)."""
    no_proxy: list[str] | None = None
    """Extension: hosts that are reached without the proxy."""


class HTTPSource(API, frozen=True):
    """A tarball over HTTP or HTTPS."""

    url: str | None = None
    """URL of the tarball. Extension: optional, by default the release of the version."""
    proxy: Annotated[ProxyConfig | None, OPEN] = None
    """The proxy for requests to the origin."""
    sha256: Annotated[str, msgspec.Meta(pattern=f"^{SHA256_FORM}$")] | None = None
    """Extension: SHA-256 of the tarball, 64 hexadecimal digits."""
    mirrors: list[str] | None = None
    """Extension: URLs that are tried in order if the first one fails."""
    ca_bundle: Annotated[str | None, msgspec.Meta(extra_json_schema={"format": "byte"})] = None
    """Extension: certificate authorities of the origin, PEM in base64."""
    ca_secret_ref: SecretReference | None = None
    """Extension: certificate authorities of the origin, in ca.crt of a Secret."""
    secret_ref: SecretReference | None = None
    """Extension: username and password, token, or tls.crt and tls.key for the origin and its mirrors."""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=MAX_TIMEOUT_SECONDS)] | None = None
    """Extension: timeout of the complete download."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_TARBALL_BYTES)] | None = None
    """Extension: maximum size of the tarball, 16 MiB by default."""


class LocalSource(API, frozen=True):
    """A tarball in a file."""

    path: Annotated[str, msgspec.Meta(min_length=1)]
    """Absolute path of the tarball where the controller runs."""


class CRDTarball(API, frozen=True):
    """The source of the CRDs of an instance, and the policy for requests to the origin."""

    crd_download_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """IfNotPresent downloads if the cache has no entry. Extension: Never uses the cached tarball or fails."""
    http_source: Annotated[HTTPSource | None, OPEN] = None
    """A tarball over HTTP or HTTPS."""
    local_source: LocalSource | None = None
    """Extension: a file where the controller runs."""
    version: str | None = None
    """Extension: release of Karmada whose CRDs are used without a source, such as v1.10.0."""
