"""The outcome of a review: the parts of an answer that its caller acts on, and how two of them differ.

The text of a patch is no part of it, because several patches make the same object. Audit annotations and the
explanation of an interpreter's answer are none either: they describe how the answer was found.
"""

import base64
import binascii
from typing import Final, NamedTuple

import msgspec

from fleethook.model.admission import KIND as ADMISSION_REVIEW
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import EXPLORE_REVIEW, INTERPRETER_CONTEXT
from fleethook.patch import PatchError, apply
from fleethook.patch.diff import identical

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


class Difference(NamedTuple):
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


def compare_outcomes(before: Outcome, after: Outcome, review: bytes) -> list[Difference]:
    """Return the differences between two outcomes of one review, in the order of `ASPECTS`.

    Args:
        before: The recorded outcome.
        after: The outcome of a replay.
        review: The body of the review, whose object the patches change.
    """
    found: list[Difference] = []
    for aspect in ASPECTS:
        if aspect == "object":
            left, right = _patch_both(before, after, review)
        else:
            left, right = getattr(before, aspect), getattr(after, aspect)
        if not identical(left, right):
            found.append(Difference(aspect, left, right))
    return found


def _patch_both(before: Outcome, after: Outcome, review: bytes) -> tuple[JSON, JSON]:
    """Return the objects after both patches; nothing if they are equal, or if the verdict says more."""
    if before.verdict != after.verdict or identical(before.patch, after.patch):
        return None, None
    document = _read_object(review)
    return _patch_object(document, before.patch), _patch_object(document, after.patch)


def _patch_object(document: JSON, patch: JSON) -> JSON:
    if patch is None or isinstance(patch, str):
        return document if patch is None else patch
    try:
        return apply(document, patch)
    except PatchError as error:
        return f"the patch does not apply: {error}"


def _read_object(review: bytes) -> JSON:
    """Return the object in a review, None if there is none."""
    try:
        return as_object(as_object(_decode(review)).get("request")).get("object")
    except _UNDECODABLE:
        return None
