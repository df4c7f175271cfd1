"""The writes of OpenYurt's controllers to existing workloads.

Sources: OpenYurt v1.4, pkg/controller/yurtappset (revision.go, yurtappset_update.go: managePools; adapter:
ApplyPoolTemplate) for YurtAppSets v1alpha1; v1.4 to v1.6, pkg/yurtmanager/controller/yurtappdaemon (revision.go,
classifyWorkloads); v1.5 to v1.7, pkg/yurtmanager/controller/yurtappset (revision.go, classifyWorkloads) for YurtAppSets
v1beta1. See docs/openyurt-versions.md for measurements.
"""

from typing import Final, NamedTuple

from fleethook.engines.overrider.render.member_differences import ABSENT, find_differences
from fleethook.engines.overrider.subject.subject_parts import TEMPLATES, is_v1beta1
from fleethook.engines.overrider.template.template import tolerate
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import (
    NODE_LABEL_NODEPOOL,
    POOL_PATCH_ANNOTATION,
    REF_APP_SET_LABEL,
    REVISION_LABEL,
    YURT_APP_DAEMON,
)

NEW_REVISION: Final = "(new revision)"
"""Stands for the revision label that OpenYurt's controller computes."""

# The members of the spec that the controller of YurtAppSets v1alpha1 copies from the template.
_COPIED: Final = {
    "Deployment": ("strategy", "minReadySeconds", "paused", "progressDeadlineSeconds", "revisionHistoryLimit"),
    "StatefulSet": ("updateStrategy", "podManagementPolicy", "revisionHistoryLimit"),
}
# The members of a StatefulSet's spec that no update can change.
_CREATE_ONLY: Final = ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy")


class OwnerEdit(NamedTuple):
    """A subject before and after an edit; equal if the edit does not concern it."""

    group_kind: GroupKind
    before: JSONObject
    after: JSONObject

    @property
    def changes_revision(self) -> bool:
        """Whether the controller computes another revision, which it writes into every pod template."""
        member = "workload" if is_v1beta1(self.after) else "workloadTemplate"
        before, after = (as_object(one.get("spec")).get(member) for one in (self.before, self.after))
        return before != after and not _is_same_content(before, after, is_nested=is_v1beta1(self.after))


def _is_same_content(before: JSON, after: JSON, *, is_nested: bool) -> bool:
    """Return whether the Go types of OpenYurt encode two templates alike, apart from values that they normalize."""
    if is_nested:
        rest = [
            {name: one for name, one in as_object(part).items() if name != "workloadTemplate"}
            for part in (before, after)
        ]
        if rest[0] != rest[1]:
            return False
        before, after = (as_object(part).get("workloadTemplate") for part in (before, after))
    for name in TEMPLATES.values():
        old, new = (as_object(as_object(part).get(name)) for part in (before, after))
        # Defaults of kube-apiserver are differences here: nothing fills them into a template of a subject.
        if any(not _is_empty_pair(one.stored, one.requested) for one in find_differences(dict(old), dict(new))):
            return False
    return True


def _is_empty_pair(before: JSON, after: JSON) -> bool:
    return all(one is None or one is ABSENT or one == [] for one in (before, after))


def is_written(edit: OwnerEdit, workload: JSONObject, pool: str, *, bare: JSONObject, taints: JSON) -> bool:
    """Return whether the controller writes an existing workload of a pool that the subject keeps.

    Args:
        edit: The subject.
        workload: The stored workload.
        pool: Its node pool.
        bare: The workload of the pool without overrides, after the edit.
        taints: The taints of the NodePool, after the edit.
    """
    if edit.changes_revision:
        return True
    if is_v1beta1(edit.after):
        return False  # The controller compares nothing but the revision.
    if edit.group_kind == YURT_APP_DAEMON:
        pod_spec = as_object(as_object(as_object(workload["spec"].get("template")).get("spec")))
        return pod_spec.get("nodeSelector") != {NODE_LABEL_NODEPOOL: pool} or not _tolerates(pod_spec, taints)
    annotations = as_object(workload["metadata"].get("annotations"))
    wanted = as_object(bare["metadata"].get("annotations")).get(POOL_PATCH_ANNOTATION, "")
    if annotations.get(POOL_PATCH_ANNOTATION, "") != wanted:
        return True
    return bool(workload["spec"].get("replicas", 1) != bare["spec"].get("replicas", 0))


def _tolerates(pod_spec: JSON, taints: JSON) -> bool:
    present = pod_spec.get("tolerations")
    known = present if isinstance(present, list) else []
    listed = taints if isinstance(taints, list) else []
    return all(
        any(
            as_object(one).get("key") == taint["key"]
            and as_object(one).get("effect") in (None, "", taint.get("effect"))
            for one in known
        )
        for taint in (tolerate(dict(as_object(one))) for one in listed)
    )


def owns_by_label(edit: OwnerEdit, workload: JSONObject) -> bool:
    """Return whether the controller counts a workload as its own: v1beta1 finds workloads by a label."""
    if not is_v1beta1(edit.after):
        return True
    labels = as_object(workload["metadata"].get("labels"))
    return bool(labels.get(REF_APP_SET_LABEL) == edit.after["metadata"]["name"])


def write(edit: OwnerEdit, workload: JSONObject, *, kind: str, bare: JSONObject) -> JSONObject:
    """Return the object that the controller sends for an existing workload, before admission.

    Args:
        edit: The subject.
        workload: The stored workload.
        kind: Deployment or StatefulSet.
        bare: The workload of the pool without overrides, after the edit.
    """
    labels = as_object(workload["metadata"].get("labels"))
    revision = NEW_REVISION if edit.changes_revision else labels.get(REVISION_LABEL)
    marks = {} if revision is None else {REVISION_LABEL: revision}
    metadata = {
        **workload["metadata"],
        "labels": {**labels, **bare["metadata"].get("labels", {}), **marks},
        "annotations": {
            **as_object(workload["metadata"].get("annotations")),
            **bare["metadata"].get("annotations", {}),
        },
    }
    return {**workload, "metadata": metadata, "spec": _write_spec(edit, workload["spec"], kind, bare["spec"], marks)}


def _write_spec(edit: OwnerEdit, stored: JSON, kind: str, bare: JSON, marks: JSONObject) -> JSONObject:
    replaces_all = is_v1beta1(edit.after) or edit.group_kind == YURT_APP_DAEMON
    kept = _CREATE_ONLY if replaces_all else tuple(set(stored) - {*_COPIED[kind], "template", "replicas"})
    named = {name: value for name, value in bare.items() if name not in _CREATE_ONLY}
    if not replaces_all:
        named = {name: value for name, value in named.items() if name in (*_COPIED[kind], "template", "replicas")}
        named.setdefault("replicas", 0)
    spec: JSONObject = {**{name: stored[name] for name in kept if name in stored}, **named}
    template = as_object(spec.get("template"))
    pod_metadata = as_object(template.get("metadata"))
    pod_labels = {**as_object(pod_metadata.get("labels")), **marks}
    spec["template"] = {**template, "metadata": {**pod_metadata, "labels": pod_labels}}
    return spec
