"""The outcome of a review, and the change of one that is decided differently: its differences, and lines about them."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fleethook.cluster.registration.paths import CLUSTERS, DISPATCH_MUTATE, DISPATCH_VALIDATE
from fleethook.model.admission import KIND as ADMISSION_REVIEW
from fleethook.model.formats.text import list_names, shorten
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.karmada import EXPLORE_REVIEW, INTERPRETER_CONTEXT
from fleethook.patch import PatchError, apply, diff, resolve_pointer
from fleethook.patch.diff import identical
from fleethook.recordings.recording_format import CallName, Record

_decode: Final = msgspec.json.decode
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Members of an interpreter's answer that are no result, or parts of the outcome of their own.
_NO_RESULT: Final = frozenset({"uid", "successful", "code", "message", "patch", "patchType"})

ASPECTS: Final = ("status", "verdict", "code", "message", "object", "warnings", "result")
"""The parts of an outcome, in the order in which differences are reported."""


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a review.

    Attributes:
        status: The HTTP status.
        verdict: ``allowed``, ``denied``, ``answered`` or ``failed``, ``""`` for an HTTP error.
        code: Code and reason of a refusal.
        message: Message and causes of a refusal, one line each.
        patch: The patch of the object, decoded; the reason if that fails. None without a patch.
        warnings: The warnings. Their order has no meaning, because clients print each one.
        result: The result of an interpreter or an explanation.
    """

    status: int
    verdict: str = ""
    code: str = ""
    message: tuple[str, ...] = ()
    patch: JSON = None
    warnings: tuple[str, ...] = ()
    result: JSON = None


class OutcomeDifference(NamedTuple):
    """One part of the outcome that differs."""

    aspect: str
    before: JSON
    after: JSON


def read_outcome(status: int, answer: bytes) -> Outcome:
    """Return the outcome in an answer; an answer of unknown shape is its result.

    Args:
        status: The HTTP status.
        answer: The body of the answer.
    """
    try:
        document: JSON = _decode(answer)
    except _UNDECODABLE:
        return Outcome(status, result=answer.decode(errors="replace"))
    members = as_object(document)
    if status != 200:
        return Outcome(status, code=str(members.get("reason") or ""), message=(str(members.get("message") or ""),))
    response = members.get("response")
    kind = members.get("kind")
    if isinstance(response, dict) and kind == ADMISSION_REVIEW:
        return _read_admission(response)
    if isinstance(response, dict) and kind in (EXPLORE_REVIEW, INTERPRETER_CONTEXT):
        return _read_interpretation(kind, response)
    return Outcome(status, result=document)


def _read_admission(response: JSONObject) -> Outcome:
    warnings = tuple(sorted(map(str, response.get("warnings") or ())))
    if response.get("allowed") is True:
        return Outcome(200, "allowed", patch=_decode_patch(response), warnings=warnings)
    status = as_object(response.get("status"))
    causes = as_object(status.get("details")).get("causes") or ()
    return Outcome(
        200,
        "denied",
        code=f"{status.get('code', '')} {status.get('reason', '')}".strip(),
        message=(str(status.get("message") or ""), *map(_describe_cause, causes)),
        warnings=warnings,
    )


def _describe_cause(cause: JSON) -> str:
    members = as_object(cause)
    parts = (str(members.get(name)) for name in ("field", "reason", "message") if members.get(name))
    return ": ".join(parts)


def _read_interpretation(kind: str, response: JSONObject) -> Outcome:
    # ExploreReview has the members of a failure beside the others, and its status is a result.
    is_context = kind == INTERPRETER_CONTEXT
    if response.get("successful") is False:
        reason = as_object(response.get("status")) if is_context else response
        return Outcome(200, "failed", code=str(reason.get("code", "")), message=(str(reason.get("message") or ""),))
    left_out = _NO_RESULT | {"status"} if is_context else _NO_RESULT
    result = {name: value for name, value in response.items() if name not in left_out}
    return Outcome(200, "answered", patch=_decode_patch(response), result=result)


def _decode_patch(response: JSONObject) -> JSON:
    patch = response.get("patch")
    if patch is None:
        return None
    try:
        return _decode(base64.b64decode(patch, validate=True))
    except (TypeError, binascii.Error, *_UNDECODABLE) as error:
        return f"the patch is damaged: {error}"


def compare_outcomes(before: Outcome, after: Outcome, review: bytes) -> list[OutcomeDifference]:
    """Return the differences between two outcomes of one review, in the order of `ASPECTS`.

    Args:
        before: The recorded outcome.
        after: The outcome of a replay.
        review: The body of the review, whose object the patches change.
    """
    differences: list[OutcomeDifference] = []
    for aspect in ASPECTS:
        if aspect == "object":
            left, right = _patch_both(before, after, review)
        else:
            left, right = getattr(before, aspect), getattr(after, aspect)
        if not identical(_drop_places(aspect, left), _drop_places(aspect, right)):
            differences.append(OutcomeDifference(aspect, left, right))
    return differences


# The message of a rule that failed names a file and a line, which an edit of the file moves.
_FAILED_AT: Final = re.compile(r"(the rule \S+ failed, and failurePolicy \w+ \w+ the object: )\S+:\d+: ")


def _drop_places(aspect: str, value: Any) -> JSON:
    return [_FAILED_AT.sub(r"\1", one) for one in value] if aspect in ("message", "warnings") else value


def _patch_both(before: Outcome, after: Outcome, review: bytes) -> tuple[JSON, JSON]:
    """Return the objects after both patches; two None if the patches are equal or the verdicts differ."""
    if before.verdict != after.verdict or identical(before.patch, after.patch):
        return None, None
    document = _read_request(review).get("object")
    return _patch_object(document, before.patch), _patch_object(document, after.patch)


def _patch_object(document: JSON, patch: JSON) -> JSON:
    if patch is None or isinstance(patch, str):
        return document if patch is None else patch
    try:
        return apply(document, patch)
    except PatchError as error:
        return f"the patch does not apply: {error}"


DISPATCHING: Final = (CLUSTERS, DISPATCH_MUTATE, DISPATCH_VALIDATE)
"""Beginnings of the routes whose reviews webhooks decide."""
UNDECIDABLE: Final = "undecidable"
"""The kind of change of a review that needs an answer which was not recorded."""
_WEBHOOK: Final = re.compile(r'webhook "([^"\\]{1,253})"')


class ReviewedObject(NamedTuple):
    """The object under review."""

    kind: str
    namespace: str
    name: str
    operation: str
    owner: str
    """The controller among its owners, as ``Kind namespace/name``, ``""`` without one."""

    def __str__(self) -> str:
        return describe_name(self.kind, self.namespace, self.name)


class ChangedDecision(NamedTuple):
    """A review that is decided differently.

    Attributes:
        kinds: The parts of the outcome that differ, or only `UNDECIDABLE`.
        route: The template of the route.
        cluster: The logical cluster, ``""`` for a plain cluster.
        about: The owner of the workload, the webhooks that decide, or the kind of the object: changes of one cause have
            the same text.
        subject: The object under review.
        uid: The uid of the review, ``""`` if it has none.
        time: The time at which it was recorded.
        file: The file with the record.
        line: Its line.
        redacted: Whether values of the record were replaced by hashes.
        differences: The differences of the outcome.
        missing: The calls without a recorded answer, with the reasons.
    """

    kinds: tuple[str, ...]
    route: str
    cluster: str
    about: str
    subject: ReviewedObject
    uid: str
    time: str
    file: str
    line: int
    redacted: bool
    differences: tuple[OutcomeDifference, ...]
    missing: tuple[tuple[str, str], ...]


class RecordPlace(NamedTuple):
    """The place of a record."""

    file: str
    line: int


def describe_name(kind: str, namespace: str, name: str) -> str:
    """Return ``Kind namespace/name``, without the parts that are empty."""
    return " ".join(part for part in (kind, "/".join(part for part in (namespace, name) if part)) if part)


def make_change(
    record: Record,
    place: RecordPlace,
    review: bytes,
    *,
    differences: Sequence[OutcomeDifference] = (),
    missing: Iterable[tuple[CallName, str]] = (),
    unasked: Sequence[CallName] = (),
) -> ChangedDecision:
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
    kinds = (UNDECIDABLE,) if gone else tuple(difference.aspect for difference in differences)
    webhooks = [name for name, _ in gone] or [str(call_name) for call_name in unasked]
    return ChangedDecision(
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
    """Return the request in a review, empty if there is none."""
    try:
        return dict(as_object(as_object(_decode(review)).get("request")))
    except _UNDECODABLE:
        return {}


def _find_subject(request: JSONObject) -> ReviewedObject:
    document = as_object(request.get("object")) or as_object(request.get("oldObject"))
    metadata, kind = as_object(document.get("metadata")), as_object(request.get("kind"))
    namespace = str(request.get("namespace") or metadata.get("namespace") or "")
    # The end of a generated name is random, so the next recording has another one.
    name = str(metadata.get("generateName") or request.get("name") or metadata.get("name") or "")
    owner = next(_list_controllers(metadata.get("ownerReferences"), namespace), "")
    group_kind = GroupKind(str(kind.get("group") or ""), str(kind.get("kind") or document.get("kind") or ""))
    return ReviewedObject(str(group_kind), namespace, name, str(request.get("operation") or ""), owner)


def _list_controllers(owners: JSON, namespace: str) -> Iterator[str]:
    for reference in list_objects(owners):
        if reference.get("controller") is True:
            yield describe_name(str(reference.get("kind") or ""), namespace, str(reference.get("name") or ""))


def _name_cause(
    record: Record, subject: ReviewedObject, webhooks: Sequence[str], differences: Sequence[OutcomeDifference]
) -> str:
    named = list(webhooks)
    if not named and record.route.startswith(DISPATCHING):
        texts = [
            text
            for difference in differences
            if difference.aspect in ("message", "warnings")
            for text in _list_texts(difference)
        ]
        named = [f"webhook {name}" for name in dict.fromkeys(name for text in texts for name in _WEBHOOK.findall(text))]
        return list_names(named) or subject.kind
    return list_names(named) or subject.owner or str(subject)


def _list_texts(difference: OutcomeDifference) -> Iterator[str]:
    for side in (difference.before, difference.after):
        yield from map(str, side)


MAX_LINES: Final = 40
"""Lines about one change."""
_MAX_LENGTH: Final = 200
_TREES: Final = ("object", "result")

Sign = Literal[" ", "-", "+"]


class DiffLine(NamedTuple):
    """One line: ``-`` for the record, ``+`` for the answer now, and a blank for the place of the difference.

    Attributes:
        sign: The sign.
        text: The text, one line.
    """

    sign: Sign
    text: str


def describe_change(change: ChangedDecision) -> list[DiffLine]:
    """Return the lines about a change, `MAX_LINES` at most."""
    lines = [DiffLine(" ", f"{call}: {reason}") for call, reason in change.missing]
    for difference in change.differences:
        lines += describe_difference(difference)
        if len(lines) > MAX_LINES:
            break
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[: MAX_LINES - 1], DiffLine(" ", "further lines are left out; --output json has all of them")]


def describe_patch(difference: OutcomeDifference) -> list[JSONObject]:
    """Return the RFC 6902 patch that turns the recorded object or result into that of the replay."""
    return diff(difference.before, difference.after)


def describe_difference(difference: OutcomeDifference) -> Iterator[DiffLine]:
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
            yield DiffLine(" ", f"the numbers differ: {len(before)} recorded, {len(after)} now")
        return
    yield _make_line("-", before)
    yield _make_line("+", after)


def _describe_trees(difference: OutcomeDifference) -> Iterator[DiffLine]:
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
