"""The match conditions (CEL) of the webhooks. Those for workloads list the subjects with an overrider.

They decide which objects kube-apiserver sends.

Without a response, kube-apiserver refuses the workloads that it sends to the webhooks with ``failurePolicy: Fail``, and
admits those that it sends to the optional webhooks: docs/failure-policy.md.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.registration.webhook_configurations import BOUND_CONDITION, build_rules, list_webhooks
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION, TRIGGER_MARK
from fleethook.model.formats.names_and_labels import is_dns1123_label, is_dns1123_subdomain
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import SUBJECT_API_VERSIONS, SUBJECT_KINDS, TRIGGER_ANNOTATION

# cel-go refuses expressions of more than 100,000 code points (parser/options.go), and each apiserver compiles each
# change. The lists hold about 2,000 subjects.
MAX_LISTS_BYTES: Final = 60 * 1024

EVERY_NAMESPACE: Final = ""
"""Stands for all namespaces in `SelectedSubjects.namespaces`."""


class SubjectName(NamedTuple):
    """A subject that an overrider is bound to."""

    namespace: str
    kind: str
    name: str


class SelectedSubjects(NamedTuple):
    """The subjects with an overrider. Without a response, kube-apiserver refuses their workloads."""

    subjects: frozenset[SubjectName] = frozenset()
    namespaces: frozenset[str] = frozenset()
    """Namespaces with too many subjects for a list. The optional webhooks get all workloads of OpenYurt in them."""

    def spills(self, subject: SubjectName) -> bool:
        """Return whether the workloads of a subject are selected by their namespace."""
        return not self.namespaces.isdisjoint((subject.namespace, EVERY_NAMESPACE))


def _literal(texts: Iterable[str]) -> str:
    return "[" + ",".join(f"'{text}'" for text in sorted(texts)) + "]"


_NAMED: Final = "(owner.kind + '/' + owner.name)"
_VERSIONS: Final = _literal(SUBJECT_API_VERSIONS)
_KINDS: Final = _literal(kind.kind for kind in SUBJECT_KINDS)
# `?` tolerates missing fields: kube-apiserver supports CEL optional types since Kubernetes 1.29.
_OWNERS: Final = "object.metadata.?ownerReferences.orValue([])"
_TRIGGER: Final = f"metadata.?annotations[?'{TRIGGER_ANNOTATION}'].orValue('')"

OWNED: Final[JSONObject] = {
    "name": "owned-by-openyurt",
    "expression": f"{_OWNERS}.exists(owner, owner.apiVersion in {_VERSIONS} && owner.kind in {_KINDS})",
}

# A deletion that was admitted before and waits for finalizers got its warning then.
DELETES_NOW: Final[JSONObject] = {
    "name": "not-being-deleted",
    "expression": "!has(oldObject.metadata.deletionTimestamp)",
}
# Status and metadata of a subject do not affect the rendering.
SPEC_CHANGES: Final[JSONObject] = {
    "name": "spec-changes",
    "expression": "oldObject == null || object.spec != oldObject.spec",
}

_RENDERED: Final = " || ".join(
    (
        f"'{RENDERED_ANNOTATION}' in object.metadata.?annotations.orValue({{}})",
        # A client that replaces the complete object may drop the annotation.
        f"oldObject != null && '{RENDERED_ANNOTATION}' in oldObject.metadata.?annotations.orValue({{}})",
    )
)
# The annotation with which the controller triggers a review; it must arrive even before the list of subjects.
_TOUCHED: Final = (
    f"oldObject != null && object.{_TRIGGER}.contains('{TRIGGER_MARK}') && object.{_TRIGGER} != oldObject.{_TRIGGER}"
)
_LIST: Final = "[?request.namespace]"
_NAMESPACES: Final = re.compile(r"request\.namespace in \[([^\]]*)\]")
_EVERYWHERE: Final = "request.namespace != ''"


def write_conditions(selection: SelectedSubjects, *, optional: bool) -> list[JSONObject]:
    """Return the conditions that select the workloads of overriders for a webhook.

    A webhook with ``failurePolicy: Fail`` gets the workloads of the listed subjects. An ``optional`` webhook gets the
    other rendered workloads, and those that the controller triggers. No workload is sent to both.

    The optional webhook gets all workloads of namespaces whose subjects do not fit into the list, so a long list never
    makes more writes fail.

    Returns:
        The condition, none if the webhook gets no workload at all.
    """
    known = _fit(selection._replace(subjects=_keep_valid(selection.subjects)))
    if not optional and not known.subjects:
        return []
    expression = _select_rest(known) if optional else _write_list(known.subjects)
    return [{"name": BOUND_CONDITION, "expression": expression}]


def list_selected() -> tuple[str, ...]:
    """Return the names of the webhooks that get only workloads of the subjects with an overrider."""
    return tuple(webhook.name for webhook in list_webhooks() if webhook.gets_selected)


_NOTHING: Final = {"name": BOUND_CONDITION, "expression": "false"}


def select_workloads(registered: Collection[str], selection: SelectedSubjects) -> dict[str, JSONObject]:
    """Return ``rules`` and ``matchConditions`` of the webhooks of `list_selected`.

    A webhook that gets no workload has no rules. It has a condition all the same: after a rollback to a version whose
    installer registers rules, the webhook would otherwise get all workloads until a leader of that version runs.

    Args:
        registered: The names of the webhooks in the configuration.
        selection: The subjects with an overrider.
    """
    selected = [webhook for webhook in list_webhooks() if webhook.gets_selected and webhook.name in registered]
    made = {}
    for webhook in selected:
        conditions = write_conditions(selection, optional=webhook.advises)
        rules = build_rules(webhook) if conditions else []
        made[webhook.name] = {"rules": rules, "matchConditions": conditions or [_NOTHING]}
    return made


def read_conditions(expressions: Collection[str]) -> SelectedSubjects:
    """Return the selection in the expressions of all webhooks."""
    text = "\n".join(expressions)
    namespaces = {one for names in _NAMESPACES.findall(text) for one in names.replace("'", "").split(",")}
    if _EVERYWHERE in text:
        namespaces.add(EVERY_NAMESPACE)
    return SelectedSubjects(_read_lists(text), frozenset(namespaces))


def _keep_valid(subjects: Collection[SubjectName]) -> frozenset[SubjectName]:
    # An overrider may name its subject by any text, but only a valid name can have workloads.
    return frozenset(
        subject for subject in subjects if is_dns1123_label(subject.namespace) and is_dns1123_subdomain(subject.name)
    )


def _fit(selection: SelectedSubjects) -> SelectedSubjects:
    """Return the subjects that fit into the list, and the namespaces of the others."""
    kept: list[SubjectName] = []
    size, left = 0, set(selection.namespaces)
    for namespace, found in groupby(sorted(selection.subjects), key=lambda one: one.namespace):
        subjects = list(found)
        length = len(f'"{namespace}":[],') + sum(len(f'"{subject.kind}/{subject.name}",') for subject in subjects)
        if size + length > MAX_LISTS_BYTES:
            left.add(namespace)
        else:
            kept += subjects
            size += length
    return SelectedSubjects(frozenset(kept), frozenset(left))


def _select_rest(selection: SelectedSubjects) -> str:
    """Return the condition of rendered and triggered workloads, and of namespaces, without the listed subjects."""
    listed, namespaces = _write_list(selection.subjects), _write_namespaces(selection.namespaces)
    sent = "\n|| ".join(filter(None, (_RENDERED, namespaces, _TOUCHED)))
    return f"!{listed}\n&& ({sent})" if listed else sent


def _write_list(subjects: Collection[SubjectName]) -> str:
    """Return the condition that one of the subjects owns the workload, ``""`` without subjects."""
    if not subjects:
        return ""
    by_namespace: dict[str, list[str]] = {}
    for namespace, kind, name in sorted(subjects):
        by_namespace.setdefault(namespace, []).append(f"{kind}/{name}")
    # For names, JSON is valid CEL.
    table = msgspec.json.encode(by_namespace).decode()
    return f"{_OWNERS}.exists(owner, {_NAMED} in {table}{_LIST}.orValue([]))"


def _write_namespaces(namespaces: Collection[str]) -> str:
    if not namespaces:
        return ""
    text = f"request.namespace in {_literal(namespaces)}"
    return _EVERYWHERE if EVERY_NAMESPACE in namespaces or len(text) > MAX_LISTS_BYTES // 2 else text


def _read_lists(text: str) -> frozenset[SubjectName]:
    pattern = rf" in (\{{[^}}]*\}}){re.escape(_LIST)}"
    return frozenset[SubjectName]().union(*(_read_table(found) for found in re.findall(pattern, text)))


def _read_table(text: str) -> Iterator[SubjectName]:
    try:
        table: Mapping[str, Sequence[str]] = msgspec.json.decode(text, type=dict[str, list[str]])
    except msgspec.DecodeError:
        return  # another client wrote the expression
    for namespace, subjects in table.items():
        for kind, _, name in (subject.partition("/") for subject in subjects):
            yield SubjectName(namespace, kind, name)
