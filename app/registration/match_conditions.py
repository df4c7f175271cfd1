"""The match conditions (CEL) of the webhooks for workloads: they decide which workloads kube-apiserver sends.

Without a response, kube-apiserver refuses the write (``failurePolicy: Fail``). Only workloads that it does not send are
independent of this server: docs/failure-policy.md.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSONObject
from app.model.openyurt import (
    API_VERSION_V1BETA1,
    PARTIAL_SUFFIX,
    POOL_NAME_LABEL,
    REF_APP_SET_LABEL,
    RENDERED_ANNOTATION,
    SUBJECT_API_VERSIONS,
    SUBJECT_KINDS,
    TRIGGER_ANNOTATION,
)

BOUND_CONDITION: Final = "bound-to-an-overrider"
# cel-go refuses expressions of more than 100,000 code points (parser/options.go), and each apiserver compiles each
# change. 64 KiB hold about 2,000 subjects.
MAX_EXPRESSION_BYTES: Final = 64 * 1024

# RFC 1123 subdomain, as kube-apiserver requires of names. An overrider may name its subject by any text, but only a
# valid name can have workloads.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")

# Patterns that recover the lists from an expression.
_EVERYTHING: Final = "true"
_TABLE: Final = re.compile(r" in (\{[^}]*\})\[\?request\.namespace\]")
_EXEMPT_TABLE: Final = re.compile(r" in (\{[^}]*\})\[\?\(request\.namespace\)\]")
_NAMESPACES: Final = re.compile(r"request\.namespace in \[([^\]]*)\]")


class SubjectName(NamedTuple):
    """A subject that an overrider is bound to."""

    namespace: str
    kind: str
    name: str


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

_RENDERED: Final = " || ".join(
    (
        f"'{RENDERED_ANNOTATION}' in object.metadata.?annotations.orValue({{}})",
        # A client that replaces the complete object may drop the annotation.
        f"oldObject != null && '{RENDERED_ANNOTATION}' in oldObject.metadata.?annotations.orValue({{}})",
    )
)
# The annotation with which the controller triggers a review; it must arrive even before the list of subjects.
_TOUCHED: Final = (
    f"oldObject != null && object.{_TRIGGER}.contains('overrider@') && object.{_TRIGGER} != oldObject.{_TRIGGER}"
)
# A policy has rendered the workload completely: kube-apiserver runs policies before webhooks.
_HASH: Final = f"object.metadata.?annotations[?'{RENDERED_ANNOTATION}'].orValue('{PARTIAL_SUFFIX}')"
# The policies of v1beta1 select workloads by this label. Without it, no policy has written the annotation.
_SELECTED: Final = (
    f"(owner.apiVersion != '{API_VERSION_V1BETA1}'"
    f" || object.metadata.?labels[?'{REF_APP_SET_LABEL}'].orValue('') == owner.name)"
)
# Without the label of its node pool, no policy writes to a workload, and the webhook warns.
_EXEMPTION: Final = ")\n&& !("
_DONE: Final = f"!{_HASH}.endsWith('{PARTIAL_SUFFIX}') && '{POOL_NAME_LABEL}' in object.metadata.?labels.orValue({{}})"


def bound_condition(subjects: Collection[SubjectName], *, exempt: Collection[SubjectName] = ()) -> JSONObject:
    """Return the condition that selects the workloads of overriders.

    These are rendered workloads, workloads that the controller triggers, and workloads of ``subjects``. If the list of
    subjects is too long, the condition selects all workloads of their namespaces. If that list is too long as well, it
    selects all workloads.

    Args:
        subjects: The subjects with an overrider.
        exempt: Those of them with an active policy. A workload that the policy has rendered is not selected. If their
            list is too long, there are no exemptions.
    """
    known, covered = _keep_valid(subjects), _keep_valid(exempt)
    for spared in dict.fromkeys((covered, frozenset[SubjectName]())):
        for selector in (_select_subjects(known), _select_namespaces(known)):
            expression = _join(selector, _select_done(spared))
            if len(expression.encode()) <= MAX_EXPRESSION_BYTES:
                return {"name": BOUND_CONDITION, "expression": expression}
    return {"name": BOUND_CONDITION, "expression": _EVERYTHING}


def _keep_valid(subjects: Collection[SubjectName]) -> frozenset[SubjectName]:
    return frozenset(one for one in subjects if _NAME.fullmatch(one.namespace) and _NAME.fullmatch(one.name))


def _join(selector: str, done: str) -> str:
    selected = "\n|| ".join(filter(None, (_RENDERED, selector)))
    if not done:
        return f"{selected}\n|| {_TOUCHED}"
    return f"({selected}{_EXEMPTION}{done})\n|| {_TOUCHED}"


def end_exemptions(expression: str) -> JSONObject:
    """Return the condition that selects the workloads of an expression of `bound_condition`, and exempts none."""
    head, found, _ = expression.partition(_EXEMPTION)
    selecting = f"{head[1:]}\n|| {_TOUCHED}" if found else expression
    return {"name": BOUND_CONDITION, "expression": selecting}


def exempted_subjects(expression: str) -> frozenset[SubjectName]:
    """Return the subjects that an expression of `bound_condition` exempts."""
    return _read_table(_EXEMPT_TABLE, expression)


def listed_subjects(expression: str) -> frozenset[SubjectName] | None:
    """Return the subjects in an expression of `bound_condition`, None if it selects namespaces or all workloads."""
    if expression == _EVERYTHING or _NAMESPACES.search(expression):
        return None
    return _read_table(_TABLE, expression)


def _read_table(pattern: re.Pattern[str], expression: str) -> frozenset[SubjectName]:
    found = pattern.search(expression)
    try:
        table = msgspec.json.decode(found[1], type=dict[str, list[str]]) if found else {}
    except msgspec.DecodeError:
        table = {}  # another client wrote the expression
    named = [(namespace, *subject.partition("/")) for namespace, subjects in table.items() for subject in subjects]
    return frozenset(SubjectName(namespace, kind, name) for namespace, kind, _, name in named)


def covers(expression: str, subject: SubjectName) -> bool:
    """Return whether an expression of `bound_condition` selects the workloads of a subject."""
    listed = listed_subjects(expression)
    if listed is not None:
        return subject in listed
    found = _NAMESPACES.search(expression)
    return found is None or f"'{subject.namespace}'" in found[1].split(",")


def bound_condition_of(webhook: JSONObject) -> JSONObject | None:
    """Return the condition of a webhook with the name of `bound_condition`, None if it has none."""
    for condition in webhook.get("matchConditions") or ():
        if condition["name"] == BOUND_CONDITION:
            found: JSONObject = condition
            return found
    return None


def _select_subjects(subjects: Collection[SubjectName]) -> str:
    if not subjects:
        return ""
    return f"{_OWNERS}.exists(owner, {_NAMED} in {_write_table(subjects)}[?request.namespace].orValue([]))"


def _select_done(subjects: Collection[SubjectName]) -> str:
    """Return the condition that a policy of one of these subjects has rendered the workload."""
    if not subjects:
        return ""
    table = _write_table(subjects)
    return f"{_DONE} && {_OWNERS}.exists(owner, {_SELECTED} && {_NAMED} in {table}[?(request.namespace)].orValue([]))"


def _write_table(subjects: Collection[SubjectName]) -> str:
    by_namespace: dict[str, list[str]] = {}
    for namespace, kind, name in sorted(subjects):
        by_namespace.setdefault(namespace, []).append(f"{kind}/{name}")
    # For names, JSON is valid CEL.
    return msgspec.json.encode(by_namespace).decode()


def _select_namespaces(subjects: Collection[SubjectName]) -> str:
    return f"request.namespace in {_literal({subject.namespace for subject in subjects})}"
