"""The match conditions (CEL) of the webhooks for workloads, and the announcements of subjects that they will list.

They decide which workloads kube-apiserver sends.

Without a response, kube-apiserver refuses the workloads that it sends to the webhooks with ``failurePolicy: Fail``, and
admits those that it sends to the optional webhooks: docs/failure-policy.md.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import (
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
# change. The lists of one expression hold about 2,000 subjects.
MAX_LISTS_BYTES: Final = 60 * 1024
# Each list is in at most four expressions, and etcd stores objects of 1.5 MiB (``--max-request-bytes``).
MAX_CONDITIONS: Final = 4

# RFC 1123 subdomain, as kube-apiserver requires of names. An overrider may name its subject by any text, but only a
# valid name can have workloads.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


EVERY_NAMESPACE: Final = ""
"""Stands for all namespaces in `Selection.namespaces`."""


class SubjectName(NamedTuple):
    """A subject that an overrider is bound to."""

    namespace: str
    kind: str
    name: str


class Selection(NamedTuple):
    """The subjects with an overrider."""

    closed: frozenset[SubjectName] = frozenset()
    """Only the webhook applies their overriders. Without a response, kube-apiserver refuses their workloads."""
    open: frozenset[SubjectName] = frozenset()
    """Without a response, kube-apiserver admits their workloads."""
    covered: frozenset[SubjectName] = frozenset()
    """Policies apply their overriders. Only workloads that a policy has not completed are sent, as those of `open`.

    Those that are in `open`, too, stay there when their policies end; the others become `closed`.
    """
    namespaces: frozenset[str] = frozenset()
    """Namespaces with too many subjects for a list. All workloads of OpenYurt in them are sent, as those of `open`."""

    @property
    def subjects(self) -> frozenset[SubjectName]:
        """All listed subjects."""
        return self.closed | self.open | self.covered

    def spills(self, subject: SubjectName) -> bool:
        """Return whether the workloads of a subject are selected by their namespace."""
        return not self.namespaces.isdisjoint((subject.namespace, EVERY_NAMESPACE))

    def move(self, subject: SubjectName, *, fails_open: bool) -> "Selection":
        """Return the selection with ``subject`` in `open` or `closed`, and in no other set."""
        closed, open_, covered = (one - {subject} for one in (self.closed, self.open, self.covered))
        if fails_open:
            return Selection(closed, open_ | {subject}, covered, self.namespaces)
        return Selection(closed | {subject}, open_, covered, self.namespaces)


class Failing(StrEnum):
    """The webhooks for which conditions are written, by their failure policy."""

    CLOSED = "closed"
    """The webhook that decides about `Selection.closed`."""
    OPEN = "open"
    """The optional webhook, which decides about all other workloads."""
    ALL = "all"
    """A webhook of a registration without optional webhooks, which decides about all workloads."""


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
_DONE: Final = f"!{_HASH}.endsWith('{PARTIAL_SUFFIX}') && '{POOL_NAME_LABEL}' in object.metadata.?labels.orValue({{}})"

# The index behind each list tells which set it is. Versions without optional webhooks have the first two: the list of
# all subjects, and that of covered ones.
_CLOSED: Final = "[?request.namespace]"
_COVERED: Final = "[?(request.namespace)]"
_OPEN: Final = "[?((request.namespace))]"
_NAMESPACES: Final = re.compile(r"request\.namespace in \[([^\]]*)\]")
_EVERYWHERE: Final = "request.namespace != ''"
_EVERYTHING: Final = "true"
"""The expression of earlier versions for too many namespaces."""


class _Shard(NamedTuple):
    """The subjects of one condition: those of the namespaces from ``low`` up to ``high``."""

    selection: Selection
    low: str = ""
    high: str = ""
    """The first namespace of the next condition, ``""`` for none."""

    def guard(self, expression: str) -> str:
        """Return an expression that holds for all other namespaces."""
        others = [f"request.namespace < '{self.low}'"] if self.low else []
        others += [f"request.namespace >= '{self.high}'"] if self.high else []
        return f"{' || '.join(others)}\n|| ({expression})" if others else expression


def write_conditions(selection: Selection, failing: Failing) -> list[JSONObject]:
    """Return the conditions that select the workloads of overriders for a webhook.

    A webhook of `Failing.CLOSED` gets the workloads of `Selection.closed`. An optional webhook gets the other rendered
    workloads, the workloads that the controller triggers, and the workloads of the other subjects. No workload is sent
    to both.

    If the list of subjects is too long for one condition, each condition decides about some namespaces. The optional
    webhook gets all workloads of namespaces that do not fit, so a long list never makes more writes fail.

    Returns:
        The conditions, none if the webhook gets no workload at all.
    """
    closed, open_, covered, namespaces = selection
    known = Selection(_keep_valid(closed), _keep_valid(open_), _keep_valid(covered), namespaces)
    if failing is Failing.CLOSED and not known.closed:
        return []
    write: Callable[[_Shard], str] = {
        Failing.CLOSED: _select_closed, Failing.OPEN: _select_open, Failing.ALL: _select_all
    }[failing]  # fmt: skip
    shards = _split(known)
    return [
        {"name": f"{BOUND_CONDITION}-{number}" if number > 1 else BOUND_CONDITION, "expression": one.guard(write(one))}
        for number, one in enumerate(shards, start=1)
    ]


def find_conditions(webhook: JSONObject) -> list[JSONObject]:
    """Return the conditions of a registered webhook that `write_conditions` has made."""
    present = webhook.get("matchConditions") or ()
    return [one for one in present if re.fullmatch(rf"{BOUND_CONDITION}(-\d+)?", one["name"])]


def read_conditions(expressions: Collection[str]) -> Selection:
    """Return the selection in the expressions of all webhooks, also in those of earlier versions."""
    text = "\n".join(expressions)
    open_, covered = _read_lists(text, _OPEN), _read_lists(text, _COVERED)
    closed = _read_lists(text, _CLOSED) - open_ - covered
    namespaces = {one for names in _NAMESPACES.findall(text) for one in names.replace("'", "").split(",")}
    if _EVERYTHING in expressions or _EVERYWHERE in text:
        namespaces.add(EVERY_NAMESPACE)
    return Selection(closed, open_, covered, frozenset(namespaces))


def _keep_valid(subjects: Collection[SubjectName]) -> frozenset[SubjectName]:
    return frozenset(one for one in subjects if _NAME.fullmatch(one.namespace) and _NAME.fullmatch(one.name))


def _split(selection: Selection) -> list[_Shard]:
    """Return the shards; the last one has the namespaces that do not fit."""
    shards: list[list[SubjectName]] = [[]]
    lows, size, left = [""], 0, set(selection.namespaces)
    for namespace, found in groupby(sorted(selection.subjects), key=lambda one: one.namespace):
        subjects = list(found)
        # The longest expression has the covered subjects twice, and each namespace up to four times.
        length = 4 * len(f'"{namespace}":[],')
        for one in subjects:
            copies = (one in selection.closed) + (one in selection.open) + 2 * (one in selection.covered)
            length += copies * len(f'"{one.kind}/{one.name}",')
        if size + length > MAX_LISTS_BYTES and size and len(shards) < MAX_CONDITIONS and length <= MAX_LISTS_BYTES:
            shards.append([])
            lows.append(namespace)
            size = 0
        if size + length > MAX_LISTS_BYTES:
            left.add(namespace)
        else:
            shards[-1] += subjects
            size += length
    made = []
    for subjects, low, high in zip(shards, lows, [*lows[1:], ""], strict=True):
        namespaces = frozenset(
            one for one in left if one == EVERY_NAMESPACE or (low <= one and (not high or one < high))
        )
        closed, open_, covered = (known.intersection(subjects) for known in selection[:3])
        made.append(_Shard(Selection(closed, open_, covered, namespaces), low, high))
    return made


def _select_closed(shard: _Shard) -> str:
    return _write_list(shard.selection.closed, _CLOSED) or "false"


def _select_open(shard: _Shard) -> str:
    closed, sent = _write_list(shard.selection.closed, _CLOSED), _select_rest(shard, ())
    return f"!{closed}\n&& ({sent})" if closed else sent


def _select_all(shard: _Shard) -> str:
    return _select_rest(shard, [_write_list(shard.selection.closed, _CLOSED)])


def _select_rest(shard: _Shard, further: Sequence[str]) -> str:
    """Return the condition of rendered, triggered and listed workloads; ``further`` has the conditions of others."""
    _, open_, covered, namespaces = shard.selection
    lists = (*further, _write_list(open_, _OPEN), _write_list(covered, _COVERED))
    selected = "\n|| ".join(filter(None, (_RENDERED, *lists, _write_namespaces(namespaces))))
    if not covered:
        return f"{selected}\n|| {_TOUCHED}"
    done = f"{_DONE} && {_write_list(covered, _COVERED, where=_SELECTED)}"
    return f"({selected})\n&& !({done})\n|| {_TOUCHED}"


def _write_list(subjects: Collection[SubjectName], index: str, *, where: str = "") -> str:
    """Return the condition that one of the subjects owns the workload, ``""`` without subjects."""
    if not subjects:
        return ""
    by_namespace: dict[str, list[str]] = {}
    for namespace, kind, name in sorted(subjects):
        by_namespace.setdefault(namespace, []).append(f"{kind}/{name}")
    # For names, JSON is valid CEL.
    table = msgspec.json.encode(by_namespace).decode()
    owned = f"{_NAMED} in {table}{index}.orValue([])"
    return f"{_OWNERS}.exists(owner, {f'{where} && {owned}' if where else owned})"


def _write_namespaces(namespaces: Collection[str]) -> str:
    if not namespaces:
        return ""
    text = f"request.namespace in {_literal(namespaces)}"
    return _EVERYWHERE if EVERY_NAMESPACE in namespaces or len(text) > MAX_LISTS_BYTES // 2 else text


def _read_lists(text: str, index: str) -> frozenset[SubjectName]:
    pattern = rf" in (\{{[^}}]*\}}){re.escape(index)}"
    return frozenset[SubjectName]().union(*(_read_table(found) for found in re.findall(pattern, text)))


def _read_table(text: str) -> Iterator[SubjectName]:
    try:
        table: Mapping[str, Sequence[str]] = msgspec.json.decode(text, type=dict[str, list[str]])
    except msgspec.DecodeError:
        return  # another client wrote the expression
    for namespace, subjects in table.items():
        for kind, _, name in (subject.partition("/") for subject in subjects):
            yield SubjectName(namespace, kind, name)


ANNOUNCED_ANNOTATION: Final = "fleethook.io/announced"
# kube-apiserver limits the annotations of an object to 256 KiB (TotalAnnotationSizeLimitB). 64 KiB hold about 700
# overriders.
MAX_ANNOTATION_BYTES: Final = 64 * 1024


class Announcement(NamedTuple):
    """An overrider that is about to be stored."""

    subject: SubjectName
    overrider: str
    """The uid of the overrider, ``""`` if only the subject is known."""


_decode: Final = msgspec.json.Decoder(list[Announcement]).decode


def read_announcements(annotation: JSON) -> tuple[Announcement, ...]:
    """Return the announcements in the annotation, oldest first; none if the annotation has another format."""
    try:
        return tuple(_decode(annotation)) if isinstance(annotation, str) else ()
    except msgspec.DecodeError:
        return ()  # another client wrote the annotation


def write_announcements(announcements: Sequence[Announcement]) -> str:
    """Return the value of the annotation; the oldest announcements are dropped if it would be too long."""
    kept: list[bytes] = []
    size = len("[]")
    for one in reversed(announcements):
        text = msgspec.json.encode(one)
        size += len(text) + len(",")
        if size > MAX_ANNOTATION_BYTES:
            break
        kept.append(text)
    return f"[{b','.join(reversed(kept)).decode()}]"
