"""Karmada's ``config.karmada.io``: interpreter reviews and hook configurations, as proposed and as shipped.

The proposal (seed 000) called it exploring; Karmada shipped it as interpreting, with the same eight operations under
other names and one more. Inside, the shipped names are used; `OPERATIONS` maps both ways.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, Required, TypedDict

import msgspec

from app.model.admission import Kind, Name
from app.model.gvk import GroupKind
from app.model.openyurt import FreeObject

GROUP: Final = "config.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

EXPLORE_REVIEW: Final = "ExploreReview"
INTERPRETER_CONTEXT: Final = "ResourceInterpreterContext"

EXPLORING_CONFIGURATION: Final = GroupKind(GROUP, "ResourceExploringWebhookConfiguration")
INTERPRETER_CONFIGURATION: Final = GroupKind(GROUP, "ResourceInterpreterWebhookConfiguration")

OWN_CONFIGURATION: Final = "fleethook"
"""The name of the ResourceInterpreterWebhookConfiguration that sends Karmada here."""

CUSTOMIZATION: Final = GroupKind(GROUP, "ResourceInterpreterCustomization")

CONFIG_MAP: Final = GroupKind("", "ConfigMap")
CONFIG_MAP_NAME: Final = "karmada-config"
"""The ConfigMap that the proposal (seed 001) puts retention into, and the key there."""
RETENTION_KEY: Final = "retention.customizations"

GENERATION_ANNOTATION: Final = "resourcetemplate.karmada.io/generation"
RETAIN_REPLICAS_LABEL: Final = "resourcetemplate.karmada.io/retain-replicas"


class Operation(StrEnum):
    """What can be asked about an object, by the names that Karmada shipped."""

    REPLICA = "InterpretReplica"
    COMPONENT = "InterpretComponent"
    REVISE_REPLICA = "ReviseReplica"
    RETAIN = "Retain"
    STATUS = "InterpretStatus"
    AGGREGATE_STATUS = "AggregateStatus"
    HEALTH = "InterpretHealth"
    DEPENDENCY = "InterpretDependency"
    PRUNE = "Prune"


class OperationRow(NamedTuple):
    """One operation: its names, and the members of a review that belong to it."""

    operation: Operation
    proposed: str
    """Its name in the proposal; InterpretComponent came later and has one of our making."""
    request: tuple[str, ...]
    """What has to be sent, besides the object."""
    response: tuple[str, ...]
    """What has to be answered; for those that change the object a patch, or nothing."""


OPERATIONS: Final = (
    OperationRow(Operation.REPLICA, "ExploreReplica", (), ("replicas",)),
    OperationRow(Operation.COMPONENT, "ExploreComponent", (), ()),
    OperationRow(Operation.REVISE_REPLICA, "ExploreReplicaRevising", ("replicas",), ("patch",)),
    OperationRow(Operation.RETAIN, "ExploreRetaining", ("observedObject",), ("patch",)),
    OperationRow(Operation.STATUS, "ExploreStatus", (), ("status",)),
    OperationRow(Operation.AGGREGATE_STATUS, "ExploreStatusAggregating", (), ("patch",)),
    OperationRow(Operation.HEALTH, "ExploreHealthy", (), ("healthy",)),
    OperationRow(Operation.DEPENDENCY, "ExploreDependencies", (), ("dependencies",)),
    OperationRow(Operation.PRUNE, "ExplorePacking", (), ("patch",)),
)

PATCHING: Final = frozenset(row.operation for row in OPERATIONS if row.response == ("patch",))
"""Operations whose answer is the object, changed."""

_BY_NAME: Final = {row.proposed: row.operation for row in OPERATIONS} | {
    row.operation.value: row.operation for row in OPERATIONS
}
_PROPOSED: Final = {row.operation: row.proposed for row in OPERATIONS}


def operation_named(name: str) -> Operation | None:
    """Return the operation of a name, proposed or shipped; None if there is none."""
    return _BY_NAME.get(name)


def proposed_name(operation: Operation) -> str:
    """Return the name of an operation in the proposal."""
    return _PROPOSED[operation]


_NULL: Final = msgspec.Raw(b"null")


def _null() -> msgspec.Raw:
    return _NULL


class AggregatedStatusItem(TypedDict, total=False):
    """The status of the resource in one member cluster; kept as it was sent, as interpreters of others read it."""

    clusterName: Required[str]
    status: Any
    applied: bool
    appliedMessage: str
    health: str


class InterpretRequest(msgspec.Struct, rename="camel"):
    """The request half of a review, of either name: the shipped one has a member more (``observedObject``)."""

    uid: Name
    operation: Name
    kind: Kind = Kind()
    name: Name = ""
    namespace: Name = ""
    object_raw: msgspec.Raw = msgspec.field(default_factory=_null, name="object")
    observed_raw: msgspec.Raw = msgspec.field(default_factory=_null, name="observedObject")
    replicas: int | None = None
    aggregated_status: list[AggregatedStatusItem] | None = None


class InterpretReview(msgspec.Struct, rename="camel"):
    """``ExploreReview`` or ``ResourceInterpreterContext``."""

    api_version: str
    kind: str
    request: InterpretRequest | None = None


class HookService(msgspec.Struct, frozen=True, omit_defaults=True):
    """``admissionregistration/v1.ServiceReference``."""

    namespace: str
    name: str
    path: str | None = None
    port: int | None = None


class HookClientConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``admissionregistration/v1.WebhookClientConfig``: where a hook is."""

    url: Annotated[str | None, msgspec.Meta(description="https://host[:port]/path; or a service.")] = None
    service: HookService | None = None
    ca_bundle: Annotated[
        str | None, msgspec.Meta(description="Authorities, PEM in base64.", extra_json_schema={"format": "byte"})
    ] = None


class HookRule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What operations on what resources a hook cares about."""

    operations: Annotated[list[str], msgspec.Meta(description="ExploreReplica and so on, or '*'.", min_length=1)]
    api_groups: list[str]
    api_versions: list[str]
    resources: Annotated[list[str], msgspec.Meta(description="Plurals, or '*'.")]
    scope: Annotated[Literal["*", "Cluster", "Namespaced"] | None, msgspec.Meta(description="'*' if not set.")] = None


class ExploringWebhook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One hook."""

    name: Annotated[str, msgspec.Meta(description="Fully qualified: foo.example.com.")]
    client_config: HookClientConfig
    explore_review_versions: Annotated[list[str], msgspec.Meta(description="In order of preference: v1alpha1.")]
    rules: list[HookRule] | None = None
    failure_policy: Annotated[
        Literal["Fail", "Ignore"], msgspec.Meta(description="Ignore asks the next layer when the hook fails.")
    ] = "Fail"
    timeout_seconds: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=30)], msgspec.Meta(description="How long a call may take.")
    ] = 10


class ResourceExploringWebhookConfiguration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Hooks that know resources (seed 000)."""

    webhooks: Annotated[list[ExploringWebhook], msgspec.Meta(description="In the order of their names.")]
    api_version: str = API_VERSION
    kind: str = "ResourceExploringWebhookConfiguration"
    metadata: FreeObject = {}
