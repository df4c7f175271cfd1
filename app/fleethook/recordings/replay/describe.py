"""The lines about a change that people read: the recorded outcome, and that of the replay."""

import json
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import PatchError, apply, diff, resolve_pointer
from fleethook.recordings.replay.decision_changes import Change
from fleethook.recordings.replay.outcome import Difference

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
