"""Classifies the change of one workload (a rollout of its pods, a scale, or less), and the writes of OpenYurt to it.

Sources: kube-controller-manager v1.36, pkg/controller/deployment/util (EqualIgnoreHash: a Deployment gets a new
ReplicaSet if its pod template differs) and pkg/controller/statefulset (a StatefulSet gets a new revision).

Writes of OpenYurt: OpenYurt v1.4, pkg/controller/yurtappset (revision.go, yurtappset_update.go: managePools; adapter:
ApplyPoolTemplate) for YurtAppSets v1alpha1; v1.4 to v1.6, pkg/yurtmanager/controller/yurtappdaemon (revision.go,
classifyWorkloads); v1.5 to v1.7, pkg/yurtmanager/controller/yurtappset (revision.go, classifyWorkloads) for YurtAppSets
v1beta1. See docs/openyurt-versions.md for measurements.

Its controllers compare the bytes of a revision with those of the present one (getYurtAppSetPatch and EqualRevision). So
unknown members, nulls and the empty values that Go omits change nothing, and another text of a quantity does. In
v1alpha1, OpenYurt's webhook fills defaults into the template before it is stored (pkg/apis/apps/v1alpha1/default.go).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, cast

import msgspec

from fleethook.engines.overrider.render.stored_workload_comparison import (
    MemberDifference,
    find_changes,
    fingerprint,
)
from fleethook.engines.overrider.subject.subject_and_pools import is_v1beta1
from fleethook.engines.overrider.template.pool_template_and_placement import tolerate
from fleethook.engines.overrider.template.template_builder import TEMPLATES, templates_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import ABSENT, JSON, JSONObject, as_list, as_object, list_objects
from fleethook.model.openyurt import (
    NODE_LABEL_NODEPOOL,
    POOL_PATCH_ANNOTATION,
    REF_APP_SET_LABEL,
    REVISION_LABEL,
    YURT_APP_DAEMON,
)
from fleethook.workload_schema.defaults import set_defaults
from fleethook.workload_schema.go_structs import Kind, print_workload
from fleethook.workload_schema.stored_form_and_aliases import encode_workload, normalize_struct

_SELECTOR: Final = "meta.v1.LabelSelector"
_IMAGE: Final = {"name": "", "targetImage": ""}
_MAX_NUMBER: Final = 2**1000
"""No number of an API object, and not beyond a float64."""
_PATCH: Final = {"path": "", "operation": "", "value": None}


def encode_revision(subject: JSONObject) -> bytes:
    """Return the content of the revision of a YurtAppSet or YurtAppDaemon; equal for equal revisions."""
    templates = as_object(templates_of(subject))
    spec = as_object(subject.get("spec"))
    selector = None if is_v1beta1(subject) else as_object(spec.get("selector"))
    revision: JSONObject = {
        member: _encode_template(as_object(templates[member]), cast("Kind", kind), selector)
        for kind, member in TEMPLATES.items()
        if isinstance(templates.get(member), dict)
    }
    tweaks = as_list(as_object(spec.get("workload")).get("workloadTweaks")) if selector is None else ()
    content = [revision, [_encode_tweak(as_object(tweak)) for tweak in tweaks]]
    return msgspec.json.encode(_round_numbers(content), order="deterministic")


def _encode_template(template: Mapping[str, JSON], kind: Kind, selector: Mapping[str, JSON] | None) -> JSONObject:
    """Return a template as Go encodes it.

    Args:
        template: The template.
        kind: The kind of its workloads.
        selector: The selector of a subject of v1alpha1, which OpenYurt's webhook copies into the template. It marks
            that the webhook has filled in defaults.
    """
    spec = as_object(template.get("spec"))
    if selector is not None:
        spec = {**spec, "selector": selector, "template": _fill_defaults(as_object(spec.get("template")))}
    typed: JSONObject = {"metadata": as_object(template.get("metadata")), "spec": dict(spec)}
    encoded = print_workload(encode_workload(typed, kind), kind)
    return {name: encoded[name] for name in ("metadata", "spec")}


def _fill_defaults(template: Mapping[str, JSON]) -> JSONObject:
    """Return a pod template with the defaults of OpenYurt's webhook. Its default of the pull policy is Always."""
    pod = as_object(template.get("spec"))
    containers = [
        {**container, "imagePullPolicy": container.get("imagePullPolicy") or "Always"}
        for container in list_objects(pod.get("containers"))
    ]
    pod_template = {**template, "spec": {**pod, "containers": containers}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": pod_template}}
    filled: JSONObject = set_defaults(workload)["spec"]["template"]
    return filled


def _encode_tweak(tweak: Mapping[str, JSON]) -> JSONObject:
    changes = as_object(tweak.get("tweaks"))
    selector = tweak.get("nodepoolSelector")
    members = {
        "nodepoolSelector": normalize_struct(_SELECTOR, selector) if isinstance(selector, dict) else selector,
        "pools": tweak.get("pools") or None,
        "replicas": changes.get("replicas"),
        "containerImages": _encode_list(changes.get("containerImages"), _IMAGE),
        "patches": _encode_list(changes.get("patches"), _PATCH),
    }
    return {name: value for name, value in members.items() if value is not None}


def _encode_list(elements: JSON, members: Mapping[str, JSON]) -> JSON:
    """Return a list of structs, None if Go omits it."""
    return [_encode_element(as_object(element), members) for element in as_list(elements)] or None


def _encode_element(element: Mapping[str, JSON], members: Mapping[str, JSON]) -> JSONObject:
    """Return a struct with these members and their zero values, without others. Null is zero, too."""
    return {name: zero if element.get(name) is None else element[name] for name, zero in members.items()}


def _round_numbers(value: JSON) -> JSON:
    """Return a value with each number as Go decodes it into an interface: as float64, so that 1 and 1.0 are equal."""
    if type(value) is int:
        return float(value) if abs(value) < _MAX_NUMBER else value
    if isinstance(value, dict):
        return {name: _round_numbers(inner) for name, inner in value.items()}
    return [_round_numbers(inner) for inner in value] if isinstance(value, list) else value


EffectName = Literal["rolls", "scales", "spec", "metadata", "unchanged", "created", "deleted", "error"]
"""The effect on a workload, the strongest first: ``rolls`` replaces pods, ``scales`` changes replicas only, ``spec``
changes other fields that replace no pod, ``metadata`` changes labels and annotations only."""

EFFECTS: Final[tuple[EffectName, ...]] = (
    "rolls", "scales", "created", "deleted", "spec", "metadata", "unchanged", "error",
)  # fmt: skip
_POD_TEMPLATE: Final = ("spec", "template")
_REPLICAS: Final = ("spec", "replicas")
_PAUSED: Final = ("spec", "paused")


class Effect(NamedTuple):
    """The effect of an edit on one workload."""

    name: EffectName
    pods: int = 0
    """The pods that the cluster replaces, creates or deletes by itself; of a scale, the pods added or removed."""
    replicas: tuple[int, int] = (0, 0)
    """The replicas before and after."""
    paths: tuple[str, ...] = ()
    """JSON pointers of the changed fields."""
    notes: tuple[str, ...] = ()
    """Remarks, such as that a paused Deployment does not roll yet."""


def compare(kind: str, before: JSONObject, after: JSONObject, *, pending: Sequence[MemberDifference] = ()) -> Effect:
    """Return the effect of storing a workload in place of another one.

    Args:
        kind: Deployment or StatefulSet.
        before: The stored workload.
        after: The workload after the change.
        pending: The differences of ``before`` to the workload that is due without the change. They do not count.
    """
    changes, known = find_changes(before, after), {fingerprint([difference]) for difference in pending}
    due = [change for change in changes if fingerprint([change]) not in known] if known else changes
    effect = classify(kind, before, after, due)
    if len(due) == len(changes):
        return effect
    text = "other differences from its overrider or its template are due without this edit"
    return effect._replace(notes=(*effect.notes, text))


def classify(kind: str, before: JSONObject, after: JSONObject, changes: Collection[MemberDifference]) -> Effect:
    """Return the effect of changes of a workload.

    Args:
        kind: Deployment or StatefulSet.
        before: The stored workload.
        after: The workload after the changes.
        changes: The differences that count, from `find_changes`.
    """
    paths = tuple(difference.pointer for difference in changes)
    areas = {_area_of(change) for change in changes}
    replicas = (replicas_of(before), replicas_of(after) if "replicas" in areas else replicas_of(before))
    resumes = _resumes(kind, before, changes)
    if "template" in areas or resumes:
        pods, notes = _count_replaced(kind, after, replicas[1])
        if resumes and "template" not in areas:
            notes = ("the Deployment is resumed, and its pod template changed while it was paused", *notes)
        return Effect("rolls", pods, replicas, paths, (*notes, *_note_scale(before, replicas, areas)))
    if "replicas" in areas and replicas[0] != replicas[1]:
        return Effect("scales", abs(replicas[1] - replicas[0]), replicas, paths, _note_scale(before, replicas, areas))
    if areas & {"spec", "replicas"}:
        return Effect("spec", 0, replicas, paths)
    return Effect("metadata", 0, replicas, paths) if areas else Effect("unchanged", 0, replicas)


def _area_of(difference: MemberDifference) -> str:
    if difference.address[:2] == _POD_TEMPLATE:
        return "template"
    if difference.address[:2] == _REPLICAS:
        return "replicas"
    return "spec" if difference.address[0] == "spec" else "metadata"


def replicas_of(workload: JSONObject) -> int:
    """Return the requested replicas; Kubernetes fills in 1."""
    replicas = as_object(workload.get("spec")).get("replicas")
    return replicas if type(replicas) is int else 1


def _resumes(kind: str, before: JSONObject, changes: Collection[MemberDifference]) -> bool:
    """Return whether a Deployment is resumed whose pod template changed while it was paused."""
    unpaused = any(
        change.address == _PAUSED and change.stored is True and (change.requested is ABSENT or not change.requested)
        for change in changes
    )
    status = as_object(before.get("status"))
    return kind == "Deployment" and unpaused and status.get("updatedReplicas", 0) != status.get("replicas", 0)


def _count_replaced(kind: str, after: JSONObject, replicas: int) -> tuple[int, tuple[str, ...]]:
    """Return the number of pods that a changed pod template replaces without further action, and remarks."""
    spec = as_object(after.get("spec"))
    if kind == "Deployment":
        if spec.get("paused"):
            return 0, (f"the Deployment is paused: {replicas} pods are replaced when it is resumed",)
        return replicas, ()
    strategy = as_object(spec.get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return 0, (f"updateStrategy is OnDelete: {replicas} pods are replaced as you delete them",)
    partition = as_object(strategy.get("rollingUpdate")).get("partition")
    if type(partition) is int and partition > 0:
        replaced = max(0, replicas - partition)
        return replaced, (f"updateStrategy has partition {partition}: {replicas - replaced} pods stay as they are",)
    return replicas, ()


def _note_scale(before: JSONObject, replicas: tuple[int, int], areas: Collection[str]) -> tuple[str, ...]:
    """Return a remark if the edit resets replicas that an autoscaler or a user has set."""
    if "replicas" not in areas or replicas[0] == replicas[1] or not _was_scaled(before):
        return ()
    text = (
        f"replicas {replicas[0]} were set through the scale subresource, as HorizontalPodAutoscalers and kubectl scale "
        "do; an autoscaler sets them again"
    )
    return (text,)


def _was_scaled(workload: JSONObject) -> bool:
    entries = list_objects(as_object(workload.get("metadata")).get("managedFields"))
    return any(entry.get("subresource") == "scale" for entry in entries)


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
    changes_revision: bool = False
    """Whether the controller computes another revision, which it writes into every pod template."""

    @staticmethod
    def of(group_kind: GroupKind, before: JSONObject, after: JSONObject) -> "OwnerEdit":
        """Return the edit of a subject."""
        is_same = before is after or encode_revision(before) == encode_revision(after)
        return OwnerEdit(group_kind, before, after, not is_same)

    @property
    def undone(self) -> "OwnerEdit":
        """The edit that changes nothing."""
        return OwnerEdit(self.group_kind, self.before, self.before)


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
    pool_patch = as_object(bare["metadata"].get("annotations")).get(POOL_PATCH_ANNOTATION, "")
    if annotations.get(POOL_PATCH_ANNOTATION, "") != pool_patch:
        return True
    return bool(workload["spec"].get("replicas", 1) != bare["spec"].get("replicas", 0))


def _tolerates(pod_spec: JSON, taints: JSON) -> bool:
    known = as_list(pod_spec.get("tolerations"))
    listed = as_list(taints)
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
