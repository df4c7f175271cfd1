"""The parts of a pool's template that subjects of all versions have in common."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import CLUSTER_ANNOTATION, cluster_of
from app.model.names import is_dns1123_subdomain
from app.model.openyurt import POOL_NAME_LABEL
from app.overrider.pool_mark import POOL_MARK
from app.overrider.undo import RESERVED_PREFIX

# An apiserver refuses an update that changes these (ValidateDeploymentUpdate, ValidateStatefulSetUpdate), and the
# replica count of a living workload belongs to whoever scales it unless an override claims it.
CREATE_ONLY: Final = frozenset({"selector", "replicas", "serviceName", "podManagementPolicy", "volumeClaimTemplates"})


class SubjectError(ValueError):
    """A subject that no workload of this pool can be built from; the text says what is missing."""


class PoolTemplate(NamedTuple):
    """The template of one pool, taken apart into what is set, and how placement is added."""

    named: JSONObject
    """What a new workload is given."""
    named_on_update: JSONObject
    """The same without what only a new workload can be given."""
    expressions: tuple[JSONObject, ...]
    """Node affinity expressions that every required term must contain."""
    tolerations: tuple[JSONObject, ...]
    dropped_affinity: JSON
    """A YurtAppDaemon template's own required node affinity, which gives way to the pool's node selector."""
    pool_patch: JSON
    """The pool's strategic merge patch, or None."""
    default_replicas: int | None = None
    """The replicas that an apiserver gives a new workload if the template names none; None where nobody may say."""


class PoolSettings(NamedTuple):
    """What a subject says about one pool, as far as a caller has looked it up."""

    config: JSONObject | None = None
    """The pool's element of the topology of a YurtAppSet v1alpha1."""
    tweaks: Sequence[int] | None = None
    """The numbers of the tweaks that a YurtAppSet v1beta1 has for the pool."""


NOT_LOOKED_UP: Final = PoolSettings()


def without_reserved(values: JSON) -> JSONObject:
    """Return labels or annotations without those that belong to fleethook: no template may forge or remove them."""
    return {name: value for name, value in members_of(values).items() if not name.startswith(RESERVED_PREFIX)}


def members_of(value: JSON) -> Mapping[str, JSON]:
    """Return an object without null members; an empty one in place of another value."""
    return as_object(_without_nulls(value))


def seed(group_kind: GroupKind, subject: JSONObject, *, kind: str, pool: str) -> JSONObject:
    """Return the empty workload that OpenYurt's controller starts from: identity, owner and pool label."""
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
    """Return the generateName of a pool's workload: without the pool where that would not be a valid name."""
    prefix = f"{controller}-{pool}-"
    return prefix if pool == POOL_MARK or is_dns1123_subdomain(prefix + "x") else f"{controller}-"


def without_create_only(named: JSONObject) -> JSONObject:
    """Return the metadata and spec of a template without the members that only a new workload can be given."""
    spec = {name: value for name, value in named["spec"].items() if name not in CREATE_ONLY}
    return {"metadata": named["metadata"], "spec": spec}


def _without_nulls(value: JSON) -> JSON:
    """Return ``value`` without null members: in the Kubernetes API they mean the same as absent ones.

    What has none is shared: a plan keeps this as long as the store keeps the subject.
    """
    made: JSON
    if isinstance(value, dict):
        made = {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
        same = len(made) == len(value) and all(made[name] is inner for name, inner in value.items())
        return value if same else made
    if isinstance(value, list):
        made = [_without_nulls(inner) for inner in value]
        return value if all(map(_is, made, value)) else made
    return value


def _is(left: JSON, right: JSON) -> bool:
    return left is right
