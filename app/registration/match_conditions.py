"""The match conditions of the webhooks for workloads: which of them an apiserver sends, as CEL.

An apiserver that gets no answer refuses a write (``failurePolicy: Fail``). So what is not sent is what does not depend
on this server: docs/failure-policy.md.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSONObject
from app.model.openyurt import RENDERED_ANNOTATION, SUBJECT_API_VERSIONS, SUBJECT_KINDS, TRIGGER_ANNOTATION

BOUND_CONDITION: Final = "bound-to-an-overrider"
# cel-go refuses expressions of more than 100,000 code points (parser/options.go), and every apiserver compiles each
# change. 64 KiB are some 2,000 subjects.
MAX_EXPRESSION_BYTES: Final = 64 * 1024

# RFC 1123, as an apiserver demands it of objects' names. The name of an overrider's subject is any text, and text that
# is no name has no workloads.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


# What is read back of an expression.
_EVERYTHING: Final = "true"
_TABLE: Final = re.compile(r" in (\{[^}]*\})\[\?request\.namespace\]")
_NAMESPACES: Final = re.compile(r"request\.namespace in \[([^\]]*)\]")


class SubjectName(NamedTuple):
    """A subject that an overrider is bound to."""

    namespace: str
    kind: str
    name: str


def _literal(texts: Iterable[str]) -> str:
    return "[" + ",".join(f"'{text}'" for text in sorted(texts)) + "]"


_VERSIONS: Final = _literal(SUBJECT_API_VERSIONS)
_KINDS: Final = _literal(kind.kind for kind in SUBJECT_KINDS)
# With `?`, members that are missing are no errors: optional types are in every apiserver since Kubernetes 1.29.
_OWNERS: Final = "object.metadata.?ownerReferences.orValue([])"
_TRIGGER: Final = f"metadata.?annotations[?'{TRIGGER_ANNOTATION}'].orValue('')"

OWNED: Final[JSONObject] = {
    "name": "owned-by-openyurt",
    "expression": f"{_OWNERS}.exists(owner, owner.apiVersion in {_VERSIONS} && owner.kind in {_KINDS})",
}

_RENDERED: Final = " || ".join(
    (
        f"'{RENDERED_ANNOTATION}' in object.metadata.?annotations.orValue({{}})",
        # A client that replaces the whole object may drop the annotation.
        f"oldObject != null && '{RENDERED_ANNOTATION}' in oldObject.metadata.?annotations.orValue({{}})",
    )
)
# The controller's touch, which has to arrive even before the list of subjects does.
_TOUCHED: Final = (
    f"oldObject != null && object.{_TRIGGER}.contains('overrider@') && object.{_TRIGGER} != oldObject.{_TRIGGER}"
)


def bound_condition(subjects: Collection[SubjectName]) -> JSONObject:
    """Return the condition that holds for a workload that an overrider concerns.

    That is a workload that was rendered, one that the controller touches, and one of a subject in ``subjects``. If the
    list of subjects makes the expression too long, all workloads of their namespaces are meant, and if that list is too
    long, all workloads.
    """
    known = {one for one in subjects if _NAME.fullmatch(one.namespace) and _NAME.fullmatch(one.name)}
    for selector in (_select_subjects(known), _select_namespaces(known)):
        expression = "\n|| ".join(filter(None, (_RENDERED, _TOUCHED, selector)))
        if len(expression.encode()) <= MAX_EXPRESSION_BYTES:
            return {"name": BOUND_CONDITION, "expression": expression}
    return {"name": BOUND_CONDITION, "expression": _EVERYTHING}


def listed_subjects(expression: str) -> frozenset[SubjectName] | None:
    """Return the subjects that an expression of `bound_condition` names, None if it means whole namespaces or all."""
    if expression == _EVERYTHING or _NAMESPACES.search(expression):
        return None
    found = _TABLE.search(expression)
    try:
        table = msgspec.json.decode(found[1], type=dict[str, list[str]]) if found else {}
    except msgspec.DecodeError:
        table = {}  # Somebody else's text.
    named = [(namespace, *subject.partition("/")) for namespace, subjects in table.items() for subject in subjects]
    return frozenset(SubjectName(namespace, kind, name) for namespace, kind, _, name in named)


def covers(expression: str, subject: SubjectName) -> bool:
    """Return whether workloads of a subject are sent by an expression of `bound_condition`."""
    listed = listed_subjects(expression)
    if listed is not None:
        return subject in listed
    found = _NAMESPACES.search(expression)
    return found is None or f"'{subject.namespace}'" in found[1].split(",")


def bound_condition_of(webhook: JSONObject) -> JSONObject | None:
    """Return the condition that a webhook has under the name of `bound_condition`, None if it has none."""
    for condition in webhook.get("matchConditions") or ():
        if condition["name"] == BOUND_CONDITION:
            found: JSONObject = condition
            return found
    return None


def _select_subjects(subjects: Collection[SubjectName]) -> str:
    if not subjects:
        return ""
    by_namespace: dict[str, list[str]] = {}
    for namespace, kind, name in sorted(subjects):
        by_namespace.setdefault(namespace, []).append(f"{kind}/{name}")
    # JSON of names is CEL, too.
    table = msgspec.json.encode(by_namespace).decode()
    return f"{_OWNERS}.exists(owner, (owner.kind + '/' + owner.name) in {table}[?request.namespace].orValue([]))"


def _select_namespaces(subjects: Collection[SubjectName]) -> str:
    return f"request.namespace in {_literal({subject.namespace for subject in subjects})}"
