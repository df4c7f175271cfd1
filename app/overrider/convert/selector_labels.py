"""Adds labels of the selector to pods that lack them: in v1beta1, the template is their only source."""

from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object
from app.model.openyurt import YURT_APP_SET
from app.overrider.convert.remark import Remark
from app.overrider.subject_parts import TEMPLATES, templates_of
from app.store import ObjectKey

_LABELS = "/spec/template/metadata/labels"


def complete_labels(key: ObjectKey, subject: JSONObject, *, kind: str) -> tuple[JSONObject, list[Remark]]:
    """Add the labels of a subject's selector to its pods; return the subject and the remarks.

    Args:
        key: The subject.
        subject: A subject of v1alpha1.
        kind: Deployment or StatefulSet.
    """
    remarks = list(_report_expressions(key, subject))
    missing = _find_missing_labels(key.group_kind, subject, kind)
    if not missing:
        return subject, remarks
    remarks += [
        Remark(
            "warning", "label-added", key, f"spec.workloadTemplate.{TEMPLATES[kind]}",
            f"the pods get the label {name}={value} of the selector, which kube-apiserver requires",
            path=f"{_LABELS}/{name}",
        )
        for name, value in missing.items()
    ]  # fmt: skip
    return _add_labels(subject, kind, missing), remarks


def _find_missing_labels(group_kind: GroupKind, subject: JSONObject, kind: str) -> JSONObject:
    spec = as_object(as_object(as_object(templates_of(subject)).get(TEMPLATES[kind])).get("spec"))
    own = as_object(as_object(spec.get("selector")).get("matchLabels"))
    selected = as_object(as_object(as_object(subject.get("spec")).get("selector")).get("matchLabels"))
    labels = as_object(as_object(as_object(spec.get("template")).get("metadata")).get("labels"))
    selector = selected if group_kind == YURT_APP_SET else own or selected
    return {name: value for name, value in selector.items() if name not in labels}


def _add_labels(subject: JSONObject, kind: str, missing: JSONObject) -> JSONObject:
    template = as_object(templates_of(subject))[TEMPLATES[kind]]
    spec = as_object(template.get("spec"))
    pods = as_object(spec.get("template"))
    metadata = as_object(pods.get("metadata"))
    labelled = {**pods, "metadata": {**metadata, "labels": {**as_object(metadata.get("labels")), **missing}}}
    made = {TEMPLATES[kind]: {**template, "spec": {**spec, "template": labelled}}}
    return {**subject, "spec": {**subject["spec"], "workloadTemplate": made}}


def _report_expressions(key: ObjectKey, subject: JSONObject) -> list[Remark]:
    selector = as_object(as_object(subject.get("spec")).get("selector"))
    if not selector.get("matchExpressions"):
        return []
    text = "is dropped: rendering uses only matchLabels; add the expressions to the template's own selector"
    return [Remark("warning", "selector", key, "spec.selector.matchExpressions", text)]
