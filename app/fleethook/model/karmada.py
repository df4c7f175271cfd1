"""Karmada's ``config.karmada.io``: interpreter reviews and webhook configurations, as proposed and as released.

The proposal (karmada-io/karmada, docs/proposals/resource-exploring-webhook) says "exploring". Karmada released it as
"interpreting", with other names for the eight operations and one more operation. This code uses the released names;
`OPERATIONS` maps both.
"""

from enum import StrEnum
from typing import Any, Final, NamedTuple, Required, TypedDict

import msgspec

from fleethook.model.admission import Kind, Name
from fleethook.model.gvk import GroupKind

__all__ = ["AggregatedStatusItem", "InterpretRequest", "InterpretReview", "Kind", "Operation"]

GROUP: Final = "config.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

EXPLORE_REVIEW: Final = "ExploreReview"
INTERPRETER_CONTEXT: Final = "ResourceInterpreterContext"

EXPLORING_CONFIGURATION: Final = GroupKind(GROUP, "ResourceExploringWebhookConfiguration")
INTERPRETER_CONFIGURATION: Final = GroupKind(GROUP, "ResourceInterpreterWebhookConfiguration")

CUSTOMIZATION: Final = GroupKind(GROUP, "ResourceInterpreterCustomization")

CONFIG_MAP: Final = GroupKind("", "ConfigMap")
CONFIG_MAP_NAME: Final = "karmada-config"
"""The ConfigMap with retention rules (karmada-io/karmada, docs/proposals/runtime-value-retention)."""

GENERATION_ANNOTATION: Final = "resourcetemplate.karmada.io/generation"


class Operation(StrEnum):
    """The operations of an interpreter, with the names that Karmada released."""

    REPLICA = "InterpretReplica"
    COMPONENT = "InterpretComponent"
    REVISE_REPLICA = "ReviseReplica"
    RETAIN = "Retain"
    STATUS = "InterpretStatus"
    AGGREGATE_STATUS = "AggregateStatus"
    HEALTH = "InterpretHealth"
    DEPENDENCY = "InterpretDependency"
    PRUNE = "Prune"


class ConventionsMode(StrEnum):
    """The operations that fleethook answers by conventions for kinds that nothing else interprets."""

    OFF = "off"
    HEALTH = "health"
    ALL = "all"


class InterpreterRegistration(StrEnum):
    """The kinds and operations about which Karmada asks fleethook."""

    OFF = "off"
    OWN = "own"
    MISSING = "missing"
    ALL = "all"


class OperationRow(NamedTuple):
    """One operation: its names, and its fields of a review."""

    operation: Operation
    proposed: str
    """The name in the proposal. InterpretComponent is newer than the proposal, so its name is invented here."""
    request: tuple[str, ...]
    """The required fields of the request, besides the object."""
    response: tuple[str, ...]
    """The required fields of the response; ``patch`` may be missing if the object does not change."""


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
"""Operations whose response changes the object."""

_BY_NAME: Final = {row.proposed: row.operation for row in OPERATIONS} | {
    row.operation.value: row.operation for row in OPERATIONS
}
_PROPOSED: Final = {row.operation: row.proposed for row in OPERATIONS}


def operation_named(name: str) -> Operation | None:
    """Return the operation with a proposed or released name, None if there is none."""
    return _BY_NAME.get(name)


def proposed_name(operation: Operation) -> str:
    """Return the name of an operation in the proposal."""
    return _PROPOSED[operation]


_NULL: Final = msgspec.Raw(b"null")


def _null() -> msgspec.Raw:
    return _NULL


class AggregatedStatusItem(TypedDict, total=False):
    """The status of the resource in one member cluster; unchanged, because other interpreters read it."""

    clusterName: Required[str]
    status: Any
    applied: bool
    appliedMessage: str
    health: str


class InterpretRequest(msgspec.Struct, rename="camel"):
    """The request of a review of either kind; only the released kind has ``observedObject``."""

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
