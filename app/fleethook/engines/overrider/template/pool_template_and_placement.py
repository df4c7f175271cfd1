"""The template of one pool, in the form that all kinds and versions of subjects have in common.

The pool's own patch, tweaks and placement change it.
"""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.engines.overrider.render.undo_and_annotations import RESERVED_PREFIX
from fleethook.engines.overrider.rules.entry_rules import replicas_problem
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.merge_keys import WORKLOAD
from fleethook.patch import StrategicMergeError, strategic_merge
from fleethook.workload_schema.stored_form_and_aliases import decode_workload

# kube-apiserver refuses updates of these fields (ValidateDeploymentUpdate, ValidateStatefulSetUpdate in
# pkg/apis/apps/validation), except replicas. Users and autoscalers set the replicas of an existing workload, unless an
# override claims them.
CREATE_ONLY: Final = frozenset({"selector", "replicas", "serviceName", "podManagementPolicy", "volumeClaimTemplates"})


class SubjectError(ValueError):
    """The subject describes no workload of this pool; the text names the missing part."""


class PoolTemplate(NamedTuple):
    """The template of one pool: the members to set, and the placement to add."""

    fields: JSONObject
    """The members that a new workload gets."""
    expressions: tuple[JSONObject, ...]
    """Node affinity expressions that every required term must have."""
    tolerations: tuple[JSONObject, ...]
    dropped_affinity: JSON
    """The required node affinity of a YurtAppDaemon's template, which the pool's node selector replaces."""
    pool_patch: JSON
    """The pool's strategic merge patch, or None."""
    default_replicas: int | None = None
    """Replicas of a new workload if the template names none; None if unknown."""
    tweaks: str = ""
    """The tweaks in it (`encode_tweaks`), ``""`` for subjects without tweaks that labels select."""


class PoolSettings(NamedTuple):
    """The settings of a subject for one pool."""

    config: JSONObject | None = None
    """The pool's element of the topology of a YurtAppSet v1alpha1; None for other subjects."""
    tweaks: Sequence[int] = ()
    """The numbers of the tweaks of a YurtAppSet v1beta1 that apply to the pool."""


def check_pool_replicas(owner: str, config: Mapping[str, JSON]) -> None:
    """Raise SubjectError if the topology of a YurtAppSet v1alpha1 has invalid replicas for a pool.

    Args:
        owner: The name of the set for the message.
        config: The pool's element of the topology.
    """
    replicas = config.get("replicas")
    if replicas is not None and (problem := replicas_problem(replicas)) is not None:
        raise SubjectError(f"{owner}: replicas of pool {config['name']!r} in spec.topology.pools {problem}")


def without_reserved(values: JSON) -> JSONObject:
    """Return labels or annotations without fleethook's own, which no template may forge or remove."""
    return {name: value for name, value in members_of(values).items() if not name.startswith(RESERVED_PREFIX)}


def members_of(value: JSON) -> Mapping[str, JSON]:
    """Return an object without null members; an empty object for a value of another type."""
    return as_object(_remove_nulls(value))


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
        return value if all(map(is_, made, value)) else made
    return value


_Objects = list[dict[str, Any]]


class _Shape(msgspec.Struct, rename="camel"):
    """Common settings: JSON names, unknown members allowed."""


class _Metadata(_Shape):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class _Term(_Shape):
    match_expressions: _Objects | None = None
    match_fields: _Objects | None = None


class _Required(_Shape):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(_Shape):
    required_during_scheduling_ignored_during_execution: _Required | None = None


class _Affinity(_Shape):
    node_affinity: _NodeAffinity | None = None


class _PodSpec(_Shape):
    containers: _Objects | None = None
    init_containers: _Objects | None = None
    volumes: _Objects | None = None
    tolerations: _Objects | None = None
    node_selector: dict[str, Any] | None = None
    affinity: _Affinity | None = None


class _PodTemplate(_Shape):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


class _Selector(_Shape):
    match_labels: dict[str, Any] | None = None


class _WorkloadSpec(_Shape):
    selector: _Selector | None = None
    template: _PodTemplate | None = None


class _Workload(_Shape):
    metadata: _Metadata
    spec: _WorkloadSpec


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
msgspec.json.Decoder(_Workload)


def shape_problem(workload: JSONObject) -> str | None:
    """Return the first member of a workload with a wrong shape and its path, None if the shape is right."""
    try:
        msgspec.convert(workload, _Workload)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def tolerate(taint: JSONObject) -> JSONObject:
    """Return the toleration of ``taint`` for any value of the taint."""
    toleration = {"key": taint.get("key", ""), "operator": "Exists"}
    return {**toleration, "effect": taint["effect"]} if taint.get("effect") else toleration


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def apply_pool_patch(placed: JSONObject, template: PoolTemplate) -> JSONObject:
    """Return ``placed`` with the pool's own patch; raises SubjectError if the patch does not fit."""
    try:
        patched = placed if template.pool_patch is None else _merge_pool_patch(placed, template.pool_patch)
    except StrategicMergeError as error:
        raise SubjectError(f"the pool's own patch does not fit: {error}") from error
    if patched is not placed and (problem := shape_problem(patched)) is not None:
        raise SubjectError(f"the pool's own patch does not fit: {problem}")
    metadata = patched["metadata"]
    kept = {name: without_reserved(metadata.get(name)) for name in ("labels", "annotations")}
    if all(kept[name] == (metadata.get(name) or {}) for name in kept):
        return patched
    return {**patched, "metadata": {**metadata, **kept}}


def _merge_pool_patch(workload: JSONObject, patch: JSON) -> JSONObject:
    """Return ``workload`` with a strategic merge patch merged into it; raises StrategicMergeError.

    OpenYurt 1.4 merges with k8s.io/apimachinery v0.22 and decodes the result. So a null in a map that the template
    lacks, such as ``nodeSelector: {site: null}``, becomes an empty value (adapter_util.go: StrategicMergeByPatches).
    """
    merged: JSONObject = strategic_merge(workload, patch, WORKLOAD, keeps_nulls=True)
    if b":null" not in msgspec.json.encode(patch):
        return merged
    return decode_workload(merged, "StatefulSet" if merged["kind"] == "StatefulSet" else "Deployment")


def place(workload: JSONObject, template: PoolTemplate) -> JSONObject:
    """Return ``workload`` with the pool's placement, added only if missing.

    Every required node affinity term gets the pool's expressions. Terms without any expression match no node, so they
    are dropped. OpenYurt leaves ``nodeSelectorTerms: [{}]`` for a pool without expressions, and its pods never start.
    """
    pod_template = workload["spec"].get("template")
    pod_spec = pod_template.get("spec") if isinstance(pod_template, dict) else None
    if not isinstance(pod_spec, dict) or is_placed(pod_spec, template):
        return workload
    placed = _add_tolerations(_add_affinity(pod_spec, template), template.tolerations)
    if placed is pod_spec:
        return workload
    return {**workload, "spec": {**workload["spec"], "template": {**pod_template, "spec": placed}}}


def is_placed(pod_spec: JSONObject, template: PoolTemplate) -> bool:
    """Return whether `place` certainly changes nothing; False means that only `place` can decide."""
    tolerations = pod_spec.get("tolerations") or []
    if template.dropped_affinity is not None or not isinstance(tolerations, list):
        return False
    if not all(made in tolerations for made in template.tolerations):
        return False
    node_affinity = as_object(as_object(pod_spec.get("affinity")).get("nodeAffinity"))
    terms = as_object(node_affinity.get(REQUIRED)).get("nodeSelectorTerms")
    if not terms:
        return not template.expressions and REQUIRED not in node_affinity
    return isinstance(terms, list) and all(_has_expressions(term, template.expressions) for term in terms)


def _has_expressions(term: JSON, expressions: tuple[JSONObject, ...]) -> bool:
    present = as_object(term).get("matchExpressions")
    return isinstance(present, list) and bool(present) and all(expression in present for expression in expressions)


def _add_tolerations(pod_spec: JSONObject, tolerations: tuple[JSONObject, ...]) -> JSONObject:
    present = pod_spec.get("tolerations") or []
    missing = [toleration for toleration in tolerations if toleration not in present]
    return {**pod_spec, "tolerations": [*present, *missing]} if missing else pod_spec


def _add_affinity(pod_spec: JSONObject, template: PoolTemplate) -> JSONObject:
    affinity = as_object(pod_spec.get("affinity"))
    node_affinity = as_object(affinity.get("nodeAffinity"))
    required = node_affinity.get(REQUIRED)
    merged = _merge_required(required, template)
    if merged == required:
        return pod_spec
    node_affinity = _set_member(node_affinity, REQUIRED, merged)
    affinity = _set_member(affinity, "nodeAffinity", node_affinity or None)
    return _set_member(pod_spec, "affinity", affinity or None)


def _merge_required(required: JSON, template: PoolTemplate) -> JSON:
    if template.dropped_affinity is not None and required == template.dropped_affinity:
        return None
    given = list_objects(as_object(required).get("nodeSelectorTerms"))
    terms = tuple(term for term in given if term.get("matchExpressions") or term.get("matchFields"))
    if template.expressions:
        terms = tuple(_add_expressions(term, template.expressions) for term in terms or ({},))
    return {**required, "nodeSelectorTerms": list(terms)} if required and terms else _wrap_terms(terms)


def _wrap_terms(terms: tuple[JSONObject, ...]) -> JSON:
    return {"nodeSelectorTerms": list(terms)} if terms else None


def _add_expressions(term: JSONObject, expressions: tuple[JSONObject, ...]) -> JSONObject:
    present = term.get("matchExpressions") or []
    missing = [expression for expression in expressions if expression not in present]
    return {**term, "matchExpressions": [*present, *missing]} if missing else term


def _set_member(target: Mapping[str, JSON], name: str, value: JSON) -> JSONObject:
    if value is None:
        return {member: inner for member, inner in target.items() if member != name}
    return {**target, name: value}
