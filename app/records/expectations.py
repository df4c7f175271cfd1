"""Expected changes: the keys in the JSON output of a former replay, or a list of keys."""

import re
from typing import Final

import msgspec

from app.model.json import as_object

_KEY: Final = re.compile(r"[0-9a-f]{16}")
_COMMENT: Final = "#"


class ExpectationError(ValueError):
    """A file of expected changes cannot be read."""


def read_expectations(text: bytes) -> list[str]:
    """Return the keys of expected changes.

    Args:
        text: The output of ``fleethook replay --output json``; or lines that begin with a key. Of such a line,
            everything after the key is a comment, and so are empty lines and lines that begin with ``#``.

    Raises:
        ExpectationError: The text is neither.
    """
    try:
        lines = text.decode()
    except UnicodeDecodeError as error:
        raise ExpectationError(f"it is not UTF-8: {error}") from None
    return _read_output(text) if lines.lstrip().startswith("{") else _read_lines(lines)


def _read_output(text: bytes) -> list[str]:
    try:
        changes = as_object(msgspec.json.decode(text)).get("changes")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ExpectationError(f"it is not JSON: {error}") from None
    if not isinstance(changes, list):
        raise ExpectationError('it has no list "changes", so it is no output of fleethook replay --output json')
    keys = [as_object(one).get("key") for one in changes]
    return [_check(key, f"/changes/{index}/key") for index, key in enumerate(keys)]


def _read_lines(lines: str) -> list[str]:
    numbered = ((number, line.split()) for number, line in enumerate(lines.splitlines(), 1))
    return [_check(words[0], f"line {number}") for number, words in numbered if words and words[0][0] != _COMMENT]


def _check(key: object, place: str) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ExpectationError(f"{place}: {str(key)[:40]!r} is no key of a change (16 hexadecimal digits)")
    return key
