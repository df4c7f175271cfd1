"""The types of ``config.karmada.io`` and ``operator.karmada.io`` whose schemas are generated."""

from typing import Annotated, Literal

import msgspec

from fleethook.model import crd_tarball, karmada
from fleethook.model.crd_tarball import OPEN, CRDTarball
from schemas.openyurt_types import API, FreeObject


class HookService(msgspec.Struct, frozen=True, omit_defaults=True):
    """``admissionregistration/v1.ServiceReference``."""

    namespace: str
    name: str
    path: str | None = None
    port: int | None = None


class HookClientConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``admissionregistration/v1.WebhookClientConfig``: the endpoint of a webhook."""

    url: str | None = None
    """https://host[:port]/path; set either url or service."""
    service: HookService | None = None
    ca_bundle: Annotated[str | None, msgspec.Meta(extra_json_schema={"format": "byte"})] = None
    """Certificate authorities, PEM in base64."""


class HookRule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The operations and resources of a webhook."""

    operations: Annotated[list[str], msgspec.Meta(min_length=1)]
    """ExploreReplica and so on, or '*'."""
    api_groups: list[str]
    api_versions: list[str]
    resources: list[str]
    """Plurals, or '*'."""
    scope: Literal["*", "Cluster", "Namespaced"] | None = None
    """'*' if not set."""


class ExploringWebhook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One webhook."""

    name: str
    """Fully qualified name, such as foo.example.com."""
    client_config: HookClientConfig
    explore_review_versions: list[str]
    """Accepted review versions in order of preference, such as v1alpha1."""
    rules: list[HookRule] | None = None
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """With Ignore, the next interpreter is asked if the webhook fails."""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=30)] = 10
    """Timeout of a call in seconds."""


class ResourceExploringWebhookConfiguration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Webhooks that interpret resources."""

    webhooks: list[ExploringWebhook]
    """Webhooks, called in the order of their names."""
    api_version: str = karmada.API_VERSION
    kind: str = "ResourceExploringWebhookConfiguration"
    metadata: FreeObject = {}


class KarmadaSpec(API, frozen=True):
    """The part of an instance's spec that selects its CRDs."""

    crd_tarball: Annotated[CRDTarball | None, OPEN] = None
    """Source of the CRDs."""


class Karmada(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An instance of Karmada."""

    spec: Annotated[KarmadaSpec, OPEN] = KarmadaSpec()
    status: FreeObject = {}
    api_version: str = crd_tarball.API_VERSION
    kind: str = "Karmada"
    metadata: FreeObject = {}
