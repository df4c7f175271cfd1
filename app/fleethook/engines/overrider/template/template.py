"""Builds the template of one node pool's workload from its subject.

OpenYurt's own controllers build workloads by the same rules, so that a pool with an override differs from the others
only by the override. Source: adapter.DeploymentAdapter.ApplyPoolTemplate for YurtAppSets v1alpha1,
workloadcontroller.DeploymentController.ApplyTemplate for YurtAppDaemons; for v1beta1 see
`fleethook.engines.overrider.template.app_set_v1beta1`. Three differences correct defects of OpenYurt: this module does
not change the revision label, adds no empty node selector term, and keeps members that the template does not name.
"""

from collections.abc import Mapping

import msgspec

from fleethook.engines.overrider.subject.subject_parts import (
    TEMPLATES,
    SetSelections,
    is_v1beta1,
    templates_of,
    templates_path,
    topology,
)
from fleethook.engines.overrider.template.app_set_v1beta1 import build_app_set_template
from fleethook.engines.overrider.template.pool_template import (
    NOT_LOOKED_UP,
    REQUIRED,
    PoolSettings,
    PoolTemplate,
    SubjectError,
    list_objects,
    members_of,
    shape_problem,
    tolerate,
    without_create_only,
    without_reserved,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import (
    NODE_LABEL_NODEPOOL,
    POOL_NAME_LABEL,
    POOL_PATCH_ANNOTATION,
    REF_NODEPOOL_ANNOTATION,
    YURT_APP_SET,
)


def build_template(
    group_kind: GroupKind,
    subject: JSONObject,
    *,
    kind: str,
    pool: str,
    node_pool: JSONObject | None,
    settings: PoolSettings = NOT_LOOKED_UP,
) -> PoolTemplate:
    """Return the template of ``subject`` for its workload in ``pool``.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: The subject as stored.
        kind: Deployment or StatefulSet.
        pool: The node pool's name.
        node_pool: The NodePool object, None if there is none. Daemons depend on its taints, tweaks on its labels.
        settings: The subject's settings for the pool, if the caller has looked them up.

    Raises:
        SubjectError: The subject has no valid template of that kind, or does not list the pool.
    """
    name = subject_name(group_kind, subject)
    template = as_object(as_object(templates_of(subject)).get(TEMPLATES[kind]))
    if not template:
        raise SubjectError(f"{name} has no {templates_path(subject)}.{TEMPLATES[kind]}")
    # OpenYurt's CustomResourceDefinition does not check the types in a template.
    shape = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    if (problem := shape_problem(shape)) is not None:
        raise SubjectError(f"{name}: the template is not valid: {problem}")
    if is_v1beta1(subject):
        numbers = SetSelections(subject).tweaks(pool, node_pool) if settings.tweaks is None else settings.tweaks
        try:
            return build_app_set_template(subject, dict(template), kind=kind, pool=pool, tweaks=numbers)
        except SubjectError as error:
            raise SubjectError(f"{name}: {error}") from error
    spec = as_object(subject.get("spec"))
    named = _build_common_members(template, spec=spec, pool=pool)
    if group_kind == YURT_APP_SET:
        config = topology(spec).get(pool) if settings.config is None else settings.config
        if config is None:
            raise SubjectError(lacks_pool(group_kind, subject, pool))
        return _build_set_template(named, spec=spec, config=config)
    return _build_daemon_template(named, node_pool=node_pool, pool=pool)


def lacks_pool(group_kind: GroupKind, subject: JSONObject, pool: str) -> str:
    """Return the message that a YurtAppSet has no workload in a node pool."""
    name = subject_name(group_kind, subject)
    if is_v1beta1(subject):
        return f"{name} has no pool {pool!r} in spec.pools, and spec.nodepoolSelector does not select it"
    return f"{name} has no pool {pool!r} in spec.topology.pools"


def subject_name(group_kind: GroupKind, subject: JSONObject) -> str:
    """Return the name of a subject for messages."""
    metadata = subject["metadata"]
    return f"{group_kind.kind} {metadata.get('namespace') or 'default'}/{metadata['name']}"


def _build_common_members(template: Mapping[str, JSON], *, spec: Mapping[str, JSON], pool: str) -> JSONObject:
    metadata = as_object(template.get("metadata"))
    selector = as_object(as_object(spec.get("selector")).get("matchLabels"))
    pool_label = {POOL_NAME_LABEL: pool}
    workload_spec = dict(members_of(template.get("spec")))
    own_selector = as_object(as_object(workload_spec.get("selector")).get("matchLabels"))
    workload_spec["selector"] = {"matchLabels": {**(own_selector or selector), **pool_label}}
    pod_template = as_object(workload_spec.get("template"))
    pod_metadata = as_object(pod_template.get("metadata"))
    pod_labels = {**as_object(pod_metadata.get("labels")), **pool_label}
    workload_spec["template"] = {**pod_template, "metadata": {**pod_metadata, "labels": pod_labels}}
    return {
        "metadata": {
            "labels": {**without_reserved(metadata.get("labels")), **selector, **pool_label},
            "annotations": without_reserved(metadata.get("annotations")),
        },
        "spec": workload_spec,
    }


def _build_set_template(named: JSONObject, *, spec: Mapping[str, JSON], config: JSONObject) -> PoolTemplate:
    workload_spec = named["spec"]
    workload_spec["selector"] = {
        "matchLabels": {
            **as_object(as_object(spec.get("selector")).get("matchLabels")),
            POOL_NAME_LABEL: config["name"],
        }
    }
    workload_spec.pop("replicas", None)
    if config.get("replicas") is not None:
        workload_spec["replicas"] = config["replicas"]
    if spec.get("revisionHistoryLimit") is not None:
        workload_spec["revisionHistoryLimit"] = spec["revisionHistoryLimit"]
    patch = config.get("patch")
    named["metadata"]["annotations"][POOL_PATCH_ANNOTATION] = _encode_patch(patch)
    term = as_object(config.get("nodeSelectorTerm"))
    return PoolTemplate(
        named=named,
        named_on_update=without_create_only(named),
        expressions=list_objects(term.get("matchExpressions")),
        tolerations=list_objects(config.get("tolerations")),
        dropped_affinity=None,
        pool_patch=patch if isinstance(patch, dict) else None,
    )


def _encode_patch(patch: JSON) -> str:
    # OpenYurt's controller writes the member as kube-apiserver encodes it: with sorted keys and without spaces.
    return msgspec.json.encode(patch, order="sorted").decode() if patch else ""


def _build_daemon_template(named: JSONObject, *, node_pool: JSONObject | None, pool: str) -> PoolTemplate:
    named["metadata"]["annotations"][REF_NODEPOOL_ANNOTATION] = pool
    pod_spec = {**as_object(named["spec"]["template"].get("spec")), "nodeSelector": {NODE_LABEL_NODEPOOL: pool}}
    dropped = None
    if node_affinity := as_object(as_object(pod_spec.get("affinity")).get("nodeAffinity")):
        dropped = node_affinity.get(REQUIRED)
        kept = {name: value for name, value in node_affinity.items() if name != REQUIRED}
        pod_spec["affinity"] = {**pod_spec["affinity"], "nodeAffinity": kept}
        if not kept:
            del pod_spec["affinity"]["nodeAffinity"]
        if not pod_spec["affinity"]:
            del pod_spec["affinity"]
    named["spec"]["template"] = {**named["spec"]["template"], "spec": pod_spec}
    taints = list_objects(as_object(as_object(node_pool or {}).get("spec")).get("taints"))
    return PoolTemplate(
        named=named,
        named_on_update=without_create_only(named),
        expressions=(),
        tolerations=tuple(tolerate(taint) for taint in taints),
        dropped_affinity=dropped,
        pool_patch=None,
    )
