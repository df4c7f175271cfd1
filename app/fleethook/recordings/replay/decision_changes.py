"""A review that is decided differently: its object, its differences, and a key that stays the same in other runs."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.cluster.registration.paths import CLUSTERS, DISPATCH_MUTATE, DISPATCH_VALIDATE
from fleethook.model.formats.text import shorten
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch import PatchError, apply, diff, resolve_pointer
from fleethook.recordings.format import Record
from fleethook.recordings.replay.outcome import Difference
from fleethook.recordings.replay.recorded_calls import CallName

DISPATCHING: Final = (CLUSTERS, DISPATCH_MUTATE, DISPATCH_VALIDATE)
"""Beginnings of the routes whose reviews webhooks decide."""
UNDECIDABLE: Final = "undecidable"
"""The kind of change of a review that needs an answer which was not recorded."""
MAX_NAMED: Final = 3
"""Webhooks that the title of a change names."""
_WEBHOOK: Final = re.compile(r'webhook "([^"\\]{1,253})"')
_KEY_LENGTH: Final = 16


class Subject(NamedTuple):
    """The object under review."""

    kind: str
    namespace: str
    name: str
    operation: str
    owner: str
    """The controller among its owners, as ``Kind namespace/name``, ``""`` without one."""

    def __str__(self) -> str:
        return describe_name(self.kind, self.namespace, self.name)


class Change(NamedTuple):
    """A review that is decided differently.

    Attributes:
        key: Equal for the same change of the same object in another run or recording.
        kinds: The parts of the outcome that differ, or only `UNDECIDABLE`.
        route: The template of the route.
        cluster: The logical cluster, ``""`` for a plain cluster.
        about: The owner of the workload, the webhooks that decide, or the kind of the object: changes of one cause have
            the same.
        subject: The object under review.
        uid: The uid of the review, ``""`` if it has none.
        time: The time at which it was recorded.
        file: The file with the record.
        line: Its line.
        redacted: Whether values of the record were replaced by hashes.
        differences: The differences of the outcome.
        missing: The calls without a recorded answer, with the reasons.
    """

    key: str
    kinds: tuple[str, ...]
    route: str
    cluster: str
    about: str
    subject: Subject
    uid: str
    time: str
    file: str
    line: int
    redacted: bool
    differences: tuple[Difference, ...]
    missing: tuple[tuple[str, str], ...]


class Place(NamedTuple):
    """The place of a record."""

    file: str
    line: int


def describe_name(kind: str, namespace: str, name: str) -> str:
    """Return ``Kind namespace/name``, without the parts that are empty."""
    return " ".join(part for part in (kind, "/".join(part for part in (namespace, name) if part)) if part)


def make_change(
    record: Record,
    place: Place,
    review: bytes,
    *,
    differences: Sequence[Difference] = (),
    missing: Iterable[tuple[CallName, str]] = (),
    unasked: Sequence[CallName] = (),
) -> Change:
    """Return the change of a review.

    Args:
        record: The record.
        place: Its place.
        review: The body of the review.
        differences: The differences of the outcome; none if it is undecidable.
        missing: The calls without a recorded answer.
        unasked: The webhooks that are not asked any more.
    """
    request = _read_request(review)
    subject = _find_subject(request)
    gone = tuple((str(call), reason) for call, reason in missing)
    kinds = (UNDECIDABLE,) if gone else tuple(one.aspect for one in differences)
    webhooks = [name for name, _ in gone] or [str(one) for one in unasked]
    return Change(
        key=_make_key(record, subject, differences, gone),
        kinds=kinds,
        route=record.route,
        cluster=record.cluster,
        about=_name_cause(record, subject, webhooks, differences),
        subject=subject,
        uid=str(request.get("uid") or ""),
        time=record.time,
        file=place.file,
        line=place.line,
        redacted=record.redacted,
        differences=() if gone else tuple(differences),
        missing=gone,
    )


def _read_request(review: bytes) -> JSONObject:
    try:
        return dict(as_object(as_object(msgspec.json.decode(review)).get("request")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _find_subject(request: JSONObject) -> Subject:
    document = as_object(request.get("object")) or as_object(request.get("oldObject"))
    metadata, kind = as_object(document.get("metadata")), as_object(request.get("kind"))
    namespace = str(request.get("namespace") or metadata.get("namespace") or "")
    # The end of a generated name is random, so the next recording has another one.
    name = str(metadata.get("generateName") or request.get("name") or metadata.get("name") or "")
    owner = next(_list_controllers(metadata.get("ownerReferences"), namespace), "")
    group_kind = GroupKind(str(kind.get("group") or ""), str(kind.get("kind") or document.get("kind") or ""))
    return Subject(str(group_kind), namespace, name, str(request.get("operation") or ""), owner)


def _list_controllers(owners: JSON, namespace: str) -> Iterator[str]:
    for one in owners if isinstance(owners, list) else ():
        reference = as_object(one)
        if reference.get("controller") is True:
            yield describe_name(str(reference.get("kind") or ""), namespace, str(reference.get("name") or ""))


def _name_cause(record: Record, subject: Subject, webhooks: Sequence[str], differences: Sequence[Difference]) -> str:
    named = list(webhooks)
    if not named and record.route.startswith(DISPATCHING):
        texts = [text for one in differences if one.aspect in ("message", "warnings") for text in _list_texts(one)]
        named = [f"webhook {name}" for name in dict.fromkeys(name for text in texts for name in _WEBHOOK.findall(text))]
        return _join(named) or subject.kind
    return _join(named) or subject.owner or str(subject)


def _list_texts(difference: Difference) -> Iterator[str]:
    for side in (difference.before, difference.after):
        yield from map(str, side)


def _join(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _make_key(
    record: Record, subject: Subject, differences: Sequence[Difference], missing: Sequence[tuple[str, str]]
) -> str:
    """Return the digest of a change: of the object and the differences, without the rest of the outcome."""
    changed: list[JSON] = [
        [one.aspect, diff(one.before, one.after) if one.aspect in ("object", "result") else [one.before, one.after]]
        for one in differences
    ]
    facts = [record.route, record.cluster, subject[:4], changed, missing]
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:_KEY_LENGTH]


MAX_LINES: Final = 40
"""Lines about one change."""
_MAX_LENGTH: Final = 200
_TREES: Final = ("object", "result")

Sign = Literal[" ", "-", "+"]


class DiffLine(NamedTuple):
    """One line: ``-`` was recorded, ``+`` is the answer now, and a blank tells where.

    Attributes:
        sign: The sign.
        text: The text, one line.
    """

    sign: Sign
    text: str


def describe_change(change: Change) -> list[DiffLine]:
    """Return the lines about a change, `MAX_LINES` at most."""
    lines = [DiffLine(" ", f"{call}: {reason}") for call, reason in change.missing]
    for one in change.differences:
        lines += describe_difference(one)
        if len(lines) > MAX_LINES:
            break
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[: MAX_LINES - 1], DiffLine(" ", "further lines are left out; --output json has all of them")]


def describe_patch(difference: Difference) -> list[JSONObject]:
    """Return the RFC 6902 patch that turns the recorded object or result into that of the replay."""
    return diff(difference.before, difference.after)


def describe_difference(difference: Difference) -> Iterator[DiffLine]:
    """Yield the lines about one difference; about an object or a result, at most `MAX_LINES` places."""
    aspect, before, after = difference
    if aspect in _TREES:
        yield from _describe_trees(difference)
        return
    yield DiffLine(" ", aspect)
    if isinstance(before, tuple) and isinstance(after, tuple):
        yield from (_make_line("-", one) for one in before if one not in after)
        yield from (_make_line("+", one) for one in after if one not in before)
        if set(before) == set(after):
            yield DiffLine(" ", f"they differ in number: {len(before)} were recorded, {len(after)} now")
        return
    yield _make_line("-", before)
    yield _make_line("+", after)


def _describe_trees(difference: Difference) -> Iterator[DiffLine]:
    current = difference.before
    for operation in describe_patch(difference)[:MAX_LINES]:
        path = operation["path"]
        yield DiffLine(" ", shorten(f"{difference.aspect} {path}".rstrip(), _MAX_LENGTH))
        if operation["op"] != "add":
            yield _make_line("-", resolve_pointer(current, path))
        if operation["op"] != "remove":
            yield _make_line("+", operation["value"])
        try:
            current = apply(current, [operation])
        except PatchError:  # a difference of the type itself, such as an object that is now text
            return


def _make_line(sign: Sign, value: JSON) -> DiffLine:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_encode)
    return DiffLine(sign, shorten(text or '""', _MAX_LENGTH))


def _encode(value: object) -> JSON:
    return msgspec.to_builtins(value)
