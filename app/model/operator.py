"""Karmada's ``operator.karmada.io/v1alpha1``: what an instance says about the CRDs that go into it.

The names are those that were shipped (operator/pkg/apis/operator/v1alpha1), and ours beside them where the
descriptions say so. Everything else in an instance is its operator's: it is neither described nor touched here.
"""

from typing import Annotated, Final, Literal

import msgspec

from app.model.gvk import GroupKind
from app.model.openyurt import API, FreeObject, describe

GROUP: Final = "operator.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

KARMADA: Final = GroupKind(GROUP, "Karmada")

POLICIES: Final = ("Always", "IfNotPresent", "Never")
CONFIG_MAP_KEY: Final = "crds.tar.gz"
"""Where a ConfigMap has the tarball, if nothing else is said."""

LONGEST_SECONDS: Final = 3600
LARGEST_BYTES: Final = 1024 * 1024 * 1024
SHA256_FORM: Final = "[0-9a-fA-F]{64}"

_OPEN: Final = msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})


class SecretReference(API, frozen=True):
    """A Secret in the namespace of the instance; one of another namespace cannot be named."""

    name: Annotated[str, describe("Name of the Secret.", min_length=1)]


class ProxyConfig(API, frozen=True):
    """How the origin is reached."""

    proxy_url: Annotated[str, describe("http, https, socks5 or socks5h.")] = msgspec.field(name="proxyURL")
    secret_ref: Annotated[
        SecretReference | None, describe("Extension: username and password for the proxy (kubernetes.io/basic-auth).")
    ] = None
    no_proxy: Annotated[list[str] | None, describe("Extension: hosts that are asked without the proxy.")] = None


class HTTPSource(API, frozen=True):
    """A tarball over HTTP or HTTPS."""

    url: Annotated[
        str | None,
        describe("Where the tarball is; if not set, the release of the version (extension: upstream needs it)."),
    ] = None
    proxy: Annotated[ProxyConfig | None, _OPEN, describe("How the origin is reached.")] = None
    sha256: Annotated[
        Annotated[str, msgspec.Meta(pattern=f"^{SHA256_FORM}$")] | None,
        describe("Extension: what the tarball has to be, 64 hexadecimal digits."),
    ] = None
    mirrors: Annotated[list[str] | None, describe("Extension: asked in order when the URL fails.")] = None
    ca_bundle: Annotated[
        str | None,
        describe("Extension: authorities of the origin, PEM in base64.", extra_json_schema={"format": "byte"}),
    ] = None
    ca_secret_ref: Annotated[SecretReference | None, describe("Extension: the same, in ca.crt of a Secret.")] = None
    secret_ref: Annotated[
        SecretReference | None,
        describe("Extension: username and password, token, or tls.crt and tls.key for the origin and its mirrors."),
    ] = None
    timeout_seconds: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=LONGEST_SECONDS)] | None,
        describe("Extension: how long all of it may take."),
    ] = None
    max_bytes: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=LARGEST_BYTES)] | None,
        describe("Extension: the largest tarball that is taken."),
    ] = None


class LocalSource(API, frozen=True):
    """A tarball that is there already."""

    path: Annotated[str, describe("Absolute path of the tarball where the controller runs.", min_length=1)]


class ConfigMapSource(API, frozen=True):
    """A tarball in the ``binaryData`` of a ConfigMap in the namespace of the instance."""

    name: Annotated[str, describe("Name of the ConfigMap.", min_length=1)]
    key: Annotated[str, describe("Key of the tarball.")] = CONFIG_MAP_KEY


class CRDTarball(API, frozen=True):
    """Where the CRDs of an instance come from, and when the origin is asked."""

    crd_download_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"],
        describe("IfNotPresent asks if nothing is cached. Extension: Never, which takes what is cached or fails."),
    ] = "IfNotPresent"
    http_source: Annotated[HTTPSource | None, _OPEN, describe("A tarball over HTTP or HTTPS.")] = None
    local_source: Annotated[LocalSource | None, describe("Extension: a file where the controller runs.")] = None
    config_map_source: Annotated[ConfigMapSource | None, describe("Extension: a ConfigMap.")] = None
    version: Annotated[
        str | None, describe("Extension: the release whose CRDs are meant, if no source is named: v1.10.0.")
    ] = None


class KarmadaSpec(API, frozen=True):
    """The part of an instance's spec that is about CRDs."""

    crd_tarball: Annotated[CRDTarball | None, _OPEN, describe("Where the CRDs come from.")] = None


class Karmada(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An instance of Karmada."""

    spec: Annotated[KarmadaSpec, _OPEN] = KarmadaSpec()
    status: FreeObject = {}
    api_version: str = API_VERSION
    kind: str = "Karmada"
    metadata: FreeObject = {}
