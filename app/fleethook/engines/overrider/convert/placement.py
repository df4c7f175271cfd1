"""Converts workloads of v1alpha1 to the form that they have under a YurtAppSet v1beta1.

Some members always differ between the versions: the labels and annotations by which OpenYurt finds and compares its
workloads, the owner reference, and the node pool, which is a node selector instead of a node affinity expression.
"""

from collections.abc import Mapping
from typing import Final

from fleethook.engines.overrider.template.template import REQUIRED
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import (
    NODE_LABEL_NODEPOOL,
    POOL_PATCH_ANNOTATION,
    REF_APP_SET_LABEL,
    REF_NODEPOOL_ANNOTATION,
)


def as_v1beta1(workload: JSONObject, base: JSONObject, *, pool: str, shown: str = "") -> JSONObject:
    """Return a workload of v1alpha1 with the members that v1beta1 sets differently.

    Args:
        workload: The workload at any step of its rendering.
        base: The workload that the converted subject describes without tweaks.
        pool: The node pool's name.
        shown: The text to write in place of that name.
    """
    metadata, base_metadata = workload["metadata"], base["metadata"]
    labels, annotations = as_object(metadata.get("labels")), as_object(metadata.get("annotations"))
    kept = {name: value for name, value in annotations.items() if name != POOL_PATCH_ANNOTATION}
    made = {
        **metadata,
        "labels": {**labels, REF_APP_SET_LABEL: base_metadata["labels"][REF_APP_SET_LABEL]},
        "annotations": {**kept, REF_NODEPOOL_ANNOTATION: shown or pool},
        "ownerReferences": base_metadata["ownerReferences"],
    }
    return _convert_pod_spec({**workload, "metadata": made}, pool, shown or pool)


def _convert_pod_spec(workload: JSONObject, pool: str, shown: str) -> JSONObject:
    spec = as_object(workload.get("spec"))
    template = as_object(spec.get("template"))
    pod_spec = template.get("spec")
    if not isinstance(pod_spec, dict):
        return workload
    return {**workload, "spec": {**spec, "template": {**template, "spec": place_by_selector(pod_spec, pool, shown)}}}


def place_by_selector(pod_spec: JSONObject, pool: str, shown: str) -> JSONObject:
    """Return a pod spec that selects its node pool by ``nodeSelector`` instead of ``affinity``."""
    selector = {**as_object(pod_spec.get("nodeSelector")), NODE_LABEL_NODEPOOL: shown}
    affinity = as_object(pod_spec.get("affinity"))
    node_affinity = as_object(affinity.get("nodeAffinity"))
    required = node_affinity.get(REQUIRED)
    wanted = _remove_pool(required, pool)
    placed = {**pod_spec, "nodeSelector": selector}
    if wanted is required:
        return placed
    node_affinity = _set_member(node_affinity, REQUIRED, wanted)
    affinity = _set_member(affinity, "nodeAffinity", node_affinity)
    return _set_member(placed, "affinity", affinity)


def _remove_pool(required: JSON, pool: str) -> JSON:
    """Return required node affinity without the node pool.

    Terms are alternatives. If a term has no other expression, it allows any node of the pool, and the result is None.
    """
    terms = as_object(required).get("nodeSelectorTerms")
    if not isinstance(terms, list) or not any(_has_pool_expression(term, pool) for term in terms):
        return required
    left = [_remove_pool_from_term(term, pool) for term in terms]
    return {**as_object(required), "nodeSelectorTerms": left} if all(left) else None


def _remove_pool_from_term(term: JSON, pool: str) -> JSON:
    if not _has_pool_expression(term, pool):
        return term
    expressions = [one for one in term["matchExpressions"] if one != _make_expression(pool)]
    return _set_member(term, "matchExpressions", expressions)


def _has_pool_expression(term: JSON, pool: str) -> bool:
    return _make_expression(pool) in (as_object(term).get("matchExpressions") or ())


def _make_expression(pool: str) -> JSONObject:
    return {"key": NODE_LABEL_NODEPOOL, "operator": "In", "values": [pool]}


def _set_member(target: Mapping[str, JSON], name: str, value: JSON) -> JSONObject:
    """Return an object with a member set, or without it if the value is empty."""
    return {**target, name: value} if value else {member: inner for member, inner in target.items() if member != name}


def is_confined(workload: JSONObject, pool: str) -> bool:
    """Return whether a workload of v1alpha1 runs only on the nodes of its pool."""
    pod_spec = _get_pod_spec(workload)
    if as_object(pod_spec.get("nodeSelector")).get(NODE_LABEL_NODEPOOL) == pool:
        return True
    terms = _get_terms(pod_spec)
    return bool(terms) and all(_has_pool_expression(term, pool) for term in terms)


def names_other_pool(workload: JSONObject, pool: str) -> bool:
    """Return whether a workload of v1alpha1 uses the label of node pools to select nodes of other pools."""
    pod_spec = _get_pod_spec(workload)
    if as_object(pod_spec.get("nodeSelector")).get(NODE_LABEL_NODEPOOL, pool) != pool:
        return True
    expressions = [one for term in _get_terms(pod_spec) for one in as_object(term).get("matchExpressions") or ()]
    return any(
        as_object(one).get("key") == NODE_LABEL_NODEPOOL and one != _make_expression(pool) for one in expressions
    )


def _get_pod_spec(workload: JSONObject) -> Mapping[str, JSON]:
    return as_object(as_object(as_object(workload.get("spec")).get("template")).get("spec"))


def _get_terms(pod_spec: Mapping[str, JSON]) -> list[JSON]:
    node_affinity = as_object(as_object(pod_spec.get("affinity")).get("nodeAffinity"))
    terms = as_object(node_affinity.get(REQUIRED)).get("nodeSelectorTerms")
    return terms if isinstance(terms, list) else []


_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def metadata_of(subject: JSONObject) -> JSONObject:
    """Return the metadata of a converted subject, without members that an apiserver sets."""
    metadata = subject["metadata"]
    made: JSONObject = {name: metadata[name] for name in ("name", "namespace") if metadata.get(name)}
    annotations = {name: text for name, text in as_object(metadata.get("annotations")).items() if name != _LAST_APPLIED}
    for name, values in (("labels", metadata.get("labels")), ("annotations", annotations)):
        if values:
            made[name] = values
    return made
