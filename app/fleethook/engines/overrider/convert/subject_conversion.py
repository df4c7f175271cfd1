"""Converts a subject of v1alpha1 to a YurtAppSet v1beta1, and predicts whether OpenYurt's webhook admits its tweaks.

The webhook applies each tweak to the template without a node pool (yurtappset_validation.go, OpenYurt v1.7.0). Of
Kubernetes' validation of the result, only mounts of volumes are checked here, because a mount and its volume may come
from two entries.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.convert.workload_diff import without_zeros
from fleethook.engines.overrider.entries.items import CONTAINER_LISTS
from fleethook.engines.overrider.subject.subject_members import TEMPLATES, templates_of
from fleethook.engines.overrider.template.node_affinity import REQUIRED, PoolTemplate, SubjectError, members_of, place
from fleethook.engines.overrider.template.template import apply_tweaks
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.openyurt import API_VERSION_V1BETA1, YURT_APP_SET
from fleethook.workload_schema.go_structs import Kind

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


def convert_subject(group_kind: GroupKind, subject: JSONObject, *, kind: Kind, pools: Sequence[str]) -> JSONObject:
    """Return the YurtAppSet v1beta1 of a subject, without tweaks.

    v1beta1 reads selector and revisionHistoryLimit from the template, so the values of v1alpha1 move there.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: A valid subject of v1alpha1.
        kind: The kind of its template, Deployment or StatefulSet.
        pools: The pools that a YurtAppSet lists.
    """
    spec = as_object(subject.get("spec"))
    template = as_object(as_object(templates_of(subject)).get(TEMPLATES[kind]))
    made: JSONObject = {}
    if group_kind == YURT_APP_SET:
        made["pools"] = list(pools)
    elif spec.get("nodepoolSelector") is not None:
        made["nodepoolSelector"] = spec["nodepoolSelector"]
    if spec.get("revisionHistoryLimit") is not None:
        made["revisionHistoryLimit"] = spec["revisionHistoryLimit"]
    converted = _convert_template(group_kind, template, spec)
    if kind == "StatefulSet":
        converted = _remove_own_labels(converted)
    cleaned = without_zeros(converted, kind)
    made["workload"] = {"workloadTemplate": {TEMPLATES[kind]: cleaned}}
    return {
        "apiVersion": API_VERSION_V1BETA1, "kind": YURT_APP_SET.kind, "metadata": metadata_of(subject), "spec": made,
    }  # fmt: skip


def with_tweaks(converted: JSONObject, tweaks: Sequence[JSONObject]) -> JSONObject:
    """Return a converted subject with tweaks."""
    if not tweaks:
        return converted
    spec = converted["spec"]
    return {**converted, "spec": {**spec, "workload": {**spec["workload"], "workloadTweaks": list(tweaks)}}}


def _convert_template(group_kind: GroupKind, template: Mapping[str, JSON], spec: Mapping[str, JSON]) -> JSONObject:
    metadata = dict(members_of(template.get("metadata")))
    selected = as_object(as_object(spec.get("selector")).get("matchLabels"))
    if labels := {**as_object(metadata.get("labels")), **selected}:
        metadata["labels"] = labels
    workload_spec = dict(members_of(template.get("spec")))
    own = as_object(as_object(workload_spec.get("selector")).get("matchLabels"))
    selector = selected if group_kind == YURT_APP_SET else own or selected
    workload_spec.pop("selector", None)
    if selector:
        workload_spec = {"selector": {"matchLabels": dict(selector)}, **workload_spec}
    if group_kind == YURT_APP_SET:
        workload_spec.pop("replicas", None)
        if spec.get("revisionHistoryLimit") is not None:
            workload_spec["revisionHistoryLimit"] = spec["revisionHistoryLimit"]
    workload_spec["template"] = _convert_pod_template(group_kind, as_object(workload_spec.get("template")), selector)
    return {**({"metadata": metadata} if metadata else {}), "spec": workload_spec}


def _remove_own_labels(template: JSONObject) -> JSONObject:
    """Return a StatefulSet's template without labels that its pods lack: OpenYurt would add them to the pods."""
    metadata = as_object(template.get("metadata"))
    pods = template["spec"]["template"]["metadata"]["labels"]
    labels = {name: value for name, value in as_object(metadata.get("labels")).items() if pods.get(name) == value}
    kept = {name: value for name, value in {**metadata, "labels": labels}.items() if name != "labels" or value}
    return {**({"metadata": kept} if kept else {}), "spec": template["spec"]}


def _convert_pod_template(
    group_kind: GroupKind, template: Mapping[str, JSON], selector: Mapping[str, JSON]
) -> JSONObject:
    metadata, pod_spec = as_object(template.get("metadata")), dict(as_object(template.get("spec")))
    made = {**template, "metadata": {**metadata, "labels": {**selector, **as_object(metadata.get("labels"))}}}
    dropped = None
    if group_kind != YURT_APP_SET:
        pod_spec.pop("nodeSelector", None)
        dropped = as_object(as_object(pod_spec.get("affinity")).get("nodeAffinity")).get(REQUIRED)
    bare = PoolTemplate({}, {}, expressions=(), tolerations=(), dropped_affinity=dropped, pool_patch=None)
    placed: JSONObject = place({"spec": {"template": {"spec": pod_spec}}}, bare)
    return {**made, "spec": placed["spec"]["template"]["spec"]}


def bare_document(converted: JSONObject, kind: str) -> JSONObject:
    """Return the document to which OpenYurt's webhook applies each tweak: the template's spec without metadata."""
    template = converted["spec"]["workload"]["workloadTemplate"][TEMPLATES[kind]]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {}, "spec": template["spec"]}


class Trial(NamedTuple):
    """The template to which tweaks are applied."""

    template: JSONObject
    kind: str
    unmounted: frozenset[str]
    """Volumes that are mounted but missing even without the tweak."""


def prepare_trial(converted: JSONObject, kind: str, workloads: Iterable[JSONObject]) -> Trial:
    """Return the trial of a set's tweaks.

    Args:
        converted: The YurtAppSet v1beta1 without tweaks.
        kind: Deployment or StatefulSet.
        workloads: The expected workloads. The conversion does not cause missing volumes in these.
    """
    template = bare_document(converted, kind)
    missing = (_find_missing_volumes(workload) for workload in (template, *workloads))
    return Trial(template, kind, frozenset().union(*missing))


def find_refusal(tweak: JSONObject, trial: Trial) -> str:
    """Return the reason why the webhook refuses a tweak, ``""`` if it admits the tweak."""
    alone = {"spec": {"workload": {"workloadTweaks": [tweak]}}}
    try:
        workload = apply_tweaks(trial.template, alone, [0], kind=trial.kind, pool="")
    except SubjectError as error:
        return str(error)
    missing = _find_missing_volumes(workload) - trial.unmounted
    return f"no volume is named {', '.join(sorted(missing))}" if missing else ""


def _find_missing_volumes(workload: JSONObject) -> frozenset[str]:
    """Return the names of the volumes that containers mount and that a workload does not have."""
    spec = as_object(workload.get("spec"))
    pod_spec = as_object(as_object(spec.get("template")).get("spec"))
    claims = (as_object(one).get("metadata") for one in _list_elements(spec, "volumeClaimTemplates"))
    known = {as_object(one).get("name") for one in (*_list_elements(pod_spec, "volumes"), *claims)}
    containers = [one for member in CONTAINER_LISTS for one in _list_elements(pod_spec, member)]
    mounts = [
        as_object(mount).get("name") for one in containers for mount in _list_elements(as_object(one), "volumeMounts")
    ]
    return frozenset(name for name in mounts if isinstance(name, str) and name not in known)


def _list_elements(value: Mapping[str, JSON], member: str) -> list[JSON]:
    return as_list(value.get(member))
