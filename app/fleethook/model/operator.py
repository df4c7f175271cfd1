"""Karmada's ``operator.karmada.io/v1alpha1``: the fields of an instance that select its CRD tarball.

The fields are those of karmada-io/karmada (operator/pkg/apis/operator/v1alpha1), and extensions of fleethook, which
their descriptions mark. All other fields belong to Karmada's operator; fleethook neither describes nor changes them.
"""

from typing import Annotated, Final, Literal

import msgspec

from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import API, FreeObject, describe

__all__ = [
    "CRDTarball",
    "ConfigMapSource",
    "HTTPSource",
    "Karmada",
    "KarmadaSpec",
    "LocalSource",
    "ProxyConfig",
    "SecretReference",
]

GROUP: Final = "operator.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

KARMADA: Final = GroupKind(GROUP, "Karmada")

POLICIES: Final = ("Always", "IfNotPresent", "Never")
CONFIG_MAP_KEY: Final = "crds.tar.gz"
"""The default key of the tarball in a ConfigMap."""

MAX_TIMEOUT_SECONDS: Final = 3600
MAX_TARBALL_BYTES: Final = 1024 * 1024 * 1024
SHA256_FORM: Final = "[0-9a-fA-F]{64}"

_OPEN: Final = msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})


class SecretReference(API, frozen=True):
    """A Secret in the namespace of the instance."""

    name: Annotated[str, describe("Name of the Secret.", min_length=1)]


class ProxyConfig(API, frozen=True):
    """The proxy for requests to the origin."""

    proxy_url: Annotated[str, describe("URL of the proxy: http, https, socks5 or socks5h.")] = msgspec.field(
        name="proxyURL"
    )
    secret_ref: Annotated[
        SecretReference | None, describe("Extension: username and password for the proxy (kubernetes.io/basic-auth).")
    ] = None
    no_proxy: Annotated[list[str] | None, describe("Extension: hosts that are reached without the proxy.")] = None


class HTTPSource(API, frozen=True):
    """A tarball over HTTP or HTTPS."""

    url: Annotated[
        str | None,
        describe("URL of the tarball. Extension: optional, by default the release of the version."),
    ] = None
    proxy: Annotated[ProxyConfig | None, _OPEN, describe("The proxy for requests to the origin.")] = None
    sha256: Annotated[
        Annotated[str, msgspec.Meta(pattern=f"^{SHA256_FORM}$")] | None,
        describe("Extension: SHA-256 of the tarball, 64 hexadecimal digits."),
    ] = None
    mirrors: Annotated[
        list[str] | None, describe("Extension: URLs that are tried in order if the first one fails.")
    ] = None
    ca_bundle: Annotated[
        str | None,
        describe(
            "Extension: certificate authorities of the origin, PEM in base64.", extra_json_schema={"format": "byte"}
        ),
    ] = None
    ca_secret_ref: Annotated[
        SecretReference | None, describe("Extension: certificate authorities of the origin, in ca.crt of a Secret.")
    ] = None
    secret_ref: Annotated[
        SecretReference | None,
        describe("Extension: username and password, token, or tls.crt and tls.key for the origin and its mirrors."),
    ] = None
    timeout_seconds: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=MAX_TIMEOUT_SECONDS)] | None,
        describe("Extension: timeout of the complete download."),
    ] = None
    max_bytes: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=MAX_TARBALL_BYTES)] | None,
        describe("Extension: maximum size of the tarball."),
    ] = None


class LocalSource(API, frozen=True):
    """A tarball in a file."""

    path: Annotated[str, describe("Absolute path of the tarball where the controller runs.", min_length=1)]


class ConfigMapSource(API, frozen=True):
    """A tarball in the ``binaryData`` of a ConfigMap in the namespace of the instance."""

    name: Annotated[str, describe("Name of the ConfigMap.", min_length=1)]
    key: Annotated[str, describe("Key of the tarball.")] = CONFIG_MAP_KEY


class CRDTarball(API, frozen=True):
    """The source of the CRDs of an instance, and the policy for requests to the origin."""

    crd_download_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"],
        describe(
            "IfNotPresent downloads if the cache has no entry. Extension: Never uses the cached tarball or fails."
        ),
    ] = "IfNotPresent"
    http_source: Annotated[HTTPSource | None, _OPEN, describe("A tarball over HTTP or HTTPS.")] = None
    local_source: Annotated[LocalSource | None, describe("Extension: a file where the controller runs.")] = None
    config_map_source: Annotated[ConfigMapSource | None, describe("Extension: a ConfigMap.")] = None
    version: Annotated[
        str | None, describe("Extension: release of Karmada whose CRDs are used without a source, such as v1.10.0.")
    ] = None


class KarmadaSpec(API, frozen=True):
    """The part of an instance's spec that selects its CRDs."""

    crd_tarball: Annotated[CRDTarball | None, _OPEN, describe("Source of the CRDs.")] = None


class Karmada(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An instance of Karmada."""

    spec: Annotated[KarmadaSpec, _OPEN] = KarmadaSpec()
    status: FreeObject = {}
    api_version: str = API_VERSION
    kind: str = "Karmada"
    metadata: FreeObject = {}
