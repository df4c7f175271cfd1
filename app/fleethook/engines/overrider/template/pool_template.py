"""The template of one pool, in the form that is common to all kinds and versions of subjects."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.value_marks import POOL_MARK
from fleethook.engines.overrider.render.undo import RESERVED_PREFIX
from fleethook.model.formats.names import is_dns1123_subdomain
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of
from fleethook.model.openyurt import POOL_NAME_LABEL

# kube-apiserver refuses updates of these fields (ValidateDeploymentUpdate, ValidateStatefulSetUpdate in
# pkg/apis/apps/validation), except replicas. Users and autoscalers set the replicas of an existing workload, unless an
# override claims them.
CREATE_ONLY: Final = frozenset({"selector", "replicas", "serviceName", "podManagementPolicy", "volumeClaimTemplates"})


class SubjectError(ValueError):
    """The subject describes no workload of this pool; the text names the missing part."""


class PoolTemplate(NamedTuple):
    """The template of one pool: the members to set, and the placement to add."""

    named: JSONObject
    """The members that a new workload gets."""
    named_on_update: JSONObject
    """``named`` without the fields of `CREATE_ONLY`."""
    expressions: tuple[JSONObject, ...]
    """Node affinity expressions that every required term must have."""
    tolerations: tuple[JSONObject, ...]
    dropped_affinity: JSON
    """The required node affinity of a YurtAppDaemon's template, which the pool's node selector replaces."""
    pool_patch: JSON
    """The pool's strategic merge patch, or None."""
    default_replicas: int | None = None
    """Replicas of a new workload if the template names none; None if unknown."""


class PoolSettings(NamedTuple):
    """The settings of a subject for one pool; None for those that the caller has not looked up."""

    config: JSONObject | None = None
    """The pool's element of the topology of a YurtAppSet v1alpha1."""
    tweaks: Sequence[int] | None = None
    """The numbers of the tweaks of a YurtAppSet v1beta1 that apply to the pool."""


NOT_LOOKED_UP: Final = PoolSettings()


def without_reserved(values: JSON) -> JSONObject:
    """Return labels or annotations without fleethook's own, which no template may forge or remove."""
    return {name: value for name, value in members_of(values).items() if not name.startswith(RESERVED_PREFIX)}


def members_of(value: JSON) -> Mapping[str, JSON]:
    """Return an object without null members; an empty object for a value of another type."""
    return as_object(_remove_nulls(value))


def seed(group_kind: GroupKind, subject: JSONObject, *, kind: str, pool: str) -> JSONObject:
    """Return the workload that OpenYurt's controller starts from: identity, owner and pool label."""
    metadata = subject["metadata"]
    owner = {"apiVersion": subject["apiVersion"], "kind": group_kind.kind, "name": metadata["name"]}
    if metadata.get("uid"):
        owner["uid"] = metadata["uid"]
    seeded: JSONObject = {
        "generateName": workload_prefix(metadata["name"], pool),
        "labels": {POOL_NAME_LABEL: pool},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    if metadata.get("namespace"):
        seeded["namespace"] = metadata["namespace"]
    if cluster := cluster_of(subject):
        seeded["annotations"] = {CLUSTER_ANNOTATION: cluster}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": seeded, "spec": {}}


def workload_prefix(controller: str, pool: str) -> str:
    """Return the generateName of a pool's workload; it omits the pool if the name would be invalid."""
    prefix = f"{controller}-{pool}-"
    return prefix if pool == POOL_MARK or is_dns1123_subdomain(prefix + "x") else f"{controller}-"


def without_create_only(named: JSONObject) -> JSONObject:
    """Return the metadata and spec of a template without the fields of `CREATE_ONLY`."""
    spec = {name: value for name, value in named["spec"].items() if name not in CREATE_ONLY}
    return {"metadata": named["metadata"], "spec": spec}


def _remove_nulls(value: JSON) -> JSON:
    """Return ``value`` without null members, which mean the same as absent ones in the Kubernetes API.

    Values without nulls are returned as they are, so that plans share them with the subject in the store.
    """
    made: JSON
    if isinstance(value, dict):
        made = {name: _remove_nulls(inner) for name, inner in value.items() if inner is not None}
        same = len(made) == len(value) and all(made[name] is inner for name, inner in value.items())
        return value if same else made
    if isinstance(value, list):
        made = [_remove_nulls(inner) for inner in value]
        return value if all(map(_is, made, value)) else made
    return value


def _is(left: JSON, right: JSON) -> bool:
    return left is right
