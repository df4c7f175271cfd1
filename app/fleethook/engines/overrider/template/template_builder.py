"""Builds the template of one node pool's workload from its subject.

OpenYurt's own controllers build workloads by the same rules, so that a pool with an override differs from the others
only by the override. Source: adapter.DeploymentAdapter.ApplyPoolTemplate for YurtAppSets v1alpha1,
workloadcontroller.DeploymentController.ApplyTemplate for YurtAppDaemons. Three differences correct defects of OpenYurt:
this module does not change the revision label, adds no empty node selector term, and keeps members that the template
does not name.

The spec of the template of a YurtAppSet v1beta1 becomes the spec of the workload. The node pool adds a node selector
and labels, then the tweaks apply. Source: DeploymentManager.ApplyTemplate and StatefulSetManager.ApplyTemplate in
pkg/yurtmanager/controller/yurtappset/workloadmanager, v1.5 to v1.7.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fleethook.engines.overrider.render.overlay_and_defaults import overlay
from fleethook.engines.overrider.subject.subject_and_pools import is_v1beta1, subject_name
from fleethook.engines.overrider.template.pool_template_and_placement import (
    REQUIRED,
    PoolSettings,
    PoolTemplate,
    SubjectError,
    members_of,
    shape_problem,
    tolerate,
    without_reserved,
)
from fleethook.engines.overrider.template.tweaks import apply_tweaks, encode_tweaks
from fleethook.model.formats.names_and_labels import is_dns1123_subdomain
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import (
    NODE_LABEL_NODEPOOL,
    POOL_NAME_LABEL,
    POOL_PATCH_ANNOTATION,
    REF_APP_SET_LABEL,
    YURT_APP_SET,
)
from fleethook.workload_schema import normalize_workload
from fleethook.workload_schema.pool_value_marks import POOL_MARK

TEMPLATES: Final = {"Deployment": "deploymentTemplate", "StatefulSet": "statefulSetTemplate"}
"""The members of a subject's workloadTemplate by workload kind."""


def templates_path(subject: JSONObject) -> str:
    """Return the field path of a subject's templates."""
    return "spec.workload.workloadTemplate" if is_v1beta1(subject) else "spec.workloadTemplate"


def templates_of(subject: JSONObject) -> JSON:
    """Return the object with the templates of a subject."""
    spec = as_object(subject.get("spec"))
    return (as_object(spec.get("workload")) if is_v1beta1(subject) else spec).get("workloadTemplate")


def workload_kinds(subject: JSONObject) -> list[str]:
    """Return the workload kinds for which the subject has a template.

    If a YurtAppSet v1beta1 has both templates, OpenYurt's controller uses that of the StatefulSet
    (yurt_app_set_controller.go).
    """
    templates = as_object(templates_of(subject))
    kinds = [kind for kind, member in TEMPLATES.items() if templates.get(member)]
    return kinds[-1:] if is_v1beta1(subject) else kinds


_DEFAULT_REPLICAS = 1

REF_NODEPOOL_ANNOTATION: Final = "apps.openyurt.io/ref-nodepool"
_OWNER_MARKS = frozenset({REF_APP_SET_LABEL, POOL_NAME_LABEL, REF_NODEPOOL_ANNOTATION})


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


def build_app_set_template(
    subject: JSONObject, template: JSONObject, *, kind: str, pool: str, tweaks: Sequence[int]
) -> PoolTemplate:
    """Return the template of the workload in ``pool``.

    Args:
        subject: A YurtAppSet v1beta1 as stored.
        template: Its template of that kind. The caller has checked its shape.
        kind: Deployment or StatefulSet.
        pool: The node pool's name.
        tweaks: The indexes of the tweaks that apply to the pool.

    Raises:
        SubjectError: A tweak does not fit the template.
    """
    metadata = as_object(template.get("metadata"))
    own = {REF_APP_SET_LABEL: subject["metadata"]["name"], POOL_NAME_LABEL: pool}
    bare: JSONObject = {
        "metadata": {
            "labels": {**members_of(metadata.get("labels")), **own},
            "annotations": {**members_of(metadata.get("annotations")), REF_NODEPOOL_ANNOTATION: pool},
        },
        "spec": _build_spec(template, kind=kind, pool=pool),
    }
    # OpenYurt's controller decodes the set into Go types, which drops unknown fields.
    whole = overlay(seed(YURT_APP_SET, subject, kind=kind, pool=pool), bare, WORKLOAD)
    bare = normalize_workload(whole, "StatefulSet" if kind == "StatefulSet" else "Deployment")
    if tweaks:
        bare = apply_tweaks(bare, subject, tweaks, kind=kind, pool=pool)
        if (problem := shape_problem(bare)) is not None:
            raise SubjectError(f"spec.workload.workloadTweaks: the patched workload is not valid: {problem}")
    fields: JSONObject = {
        "metadata": {name: without_reserved(bare["metadata"].get(name)) for name in ("labels", "annotations")},
        "spec": bare["spec"],
    }
    return PoolTemplate(
        fields=fields,
        expressions=(),
        tolerations=(),
        dropped_affinity=None,
        pool_patch=None,
        default_replicas=_DEFAULT_REPLICAS,
        tweaks=encode_tweaks(subject, tweaks),
    )


def without_owner_marks(fields: JSONObject) -> JSONObject:
    """Return the template without the labels and the annotation by which OpenYurt's controller finds its workloads.

    A workload has them from its creation. A user removes the label to release the workload, and rendering must not add
    it again.
    """
    metadata = {
        group: {name: value for name, value in members.items() if name not in _OWNER_MARKS}
        for group, members in fields["metadata"].items()
    }
    return {**fields, "metadata": metadata}


def _build_spec(template: JSONObject, *, kind: str, pool: str) -> JSONObject:
    spec = dict(members_of(template.get("spec")))
    selector = as_object(spec.get("selector"))
    spec["selector"] = {**selector, "matchLabels": {**as_object(selector.get("matchLabels")), POOL_NAME_LABEL: pool}}
    pod_template = as_object(spec.get("template"))
    pod_metadata, pod_spec = as_object(pod_template.get("metadata")), as_object(pod_template.get("spec"))
    labels: JSON = {**as_object(pod_metadata.get("labels")), POOL_NAME_LABEL: pool}
    if kind == "StatefulSet":
        # OpenYurt's StatefulSetManager, unlike its DeploymentManager, copies the template's labels to the pods.
        labels = {**as_object(pod_metadata.get("labels")), **_read_labels(template), POOL_NAME_LABEL: pool}
    node_selector = {**as_object(pod_spec.get("nodeSelector")), NODE_LABEL_NODEPOOL: pool}
    spec["template"] = {
        **pod_template,
        "metadata": {**pod_metadata, "labels": labels},
        "spec": {**pod_spec, "nodeSelector": node_selector},
    }
    return spec


def _read_labels(template: JSONObject) -> JSONObject:
    return dict(members_of(as_object(template.get("metadata")).get("labels")))


def build_template(
    group_kind: GroupKind,
    subject: JSONObject,
    *,
    kind: str,
    pool: str,
    node_pool: JSONObject | None,
    settings: PoolSettings,
) -> PoolTemplate:
    """Return the template of ``subject`` for its workload in ``pool``.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: The subject as stored.
        kind: Deployment or StatefulSet.
        pool: The node pool's name.
        node_pool: The NodePool object, None if there is none. Daemons depend on its taints.
        settings: The subject's settings for the pool.

    Raises:
        SubjectError: The subject has no valid template of that kind.
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
        try:
            return build_app_set_template(subject, dict(template), kind=kind, pool=pool, tweaks=settings.tweaks)
        except SubjectError as error:
            raise SubjectError(f"{name}: {error}") from error
    spec = as_object(subject.get("spec"))
    fields = _build_common_members(template, spec=spec, pool=pool)
    if group_kind == YURT_APP_SET:
        assert settings.config is not None
        return _build_set_template(fields, spec=spec, config=settings.config)
    return _build_daemon_template(fields, node_pool=node_pool, pool=pool)


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


def _build_set_template(fields: JSONObject, *, spec: Mapping[str, JSON], config: JSONObject) -> PoolTemplate:
    workload_spec = fields["spec"]
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
    fields["metadata"]["annotations"][POOL_PATCH_ANNOTATION] = _encode_patch(patch)
    term = as_object(config.get("nodeSelectorTerm"))
    return PoolTemplate(
        fields=fields,
        expressions=tuple(list_objects(term.get("matchExpressions"))),
        tolerations=tuple(list_objects(config.get("tolerations"))),
        dropped_affinity=None,
        pool_patch=patch if isinstance(patch, dict) else None,
    )


def _encode_patch(patch: JSON) -> str:
    # OpenYurt's controller writes the member as kube-apiserver encodes it: with sorted keys and without spaces.
    return msgspec.json.encode(patch, order="sorted").decode() if patch else ""


def _build_daemon_template(fields: JSONObject, *, node_pool: JSONObject | None, pool: str) -> PoolTemplate:
    fields["metadata"]["annotations"][REF_NODEPOOL_ANNOTATION] = pool
    pod_spec = {**as_object(fields["spec"]["template"].get("spec")), "nodeSelector": {NODE_LABEL_NODEPOOL: pool}}
    dropped = None
    if node_affinity := as_object(as_object(pod_spec.get("affinity")).get("nodeAffinity")):
        dropped = node_affinity.get(REQUIRED)
        kept = {name: value for name, value in node_affinity.items() if name != REQUIRED}
        pod_spec["affinity"] = {**pod_spec["affinity"], "nodeAffinity": kept}
        if not kept:
            del pod_spec["affinity"]["nodeAffinity"]
        if not pod_spec["affinity"]:
            del pod_spec["affinity"]
    fields["spec"]["template"] = {**fields["spec"]["template"], "spec": pod_spec}
    taints = list_objects(as_object(as_object(node_pool or {}).get("spec")).get("taints"))
    return PoolTemplate(
        fields=fields,
        expressions=(),
        tolerations=tuple(tolerate(taint) for taint in taints),
        dropped_affinity=dropped,
        pool_patch=None,
    )
