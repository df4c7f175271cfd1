"""JSON Pointer (RFC 6901)."""

import re
from collections.abc import Sequence
from typing import Final

from app.model.json import JSON
from app.patch.errors import OperationError

Tokens = tuple[str, ...]

_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
# RFC 6901 section 4: no leading zeros, no sign, ASCII digits only. More than nine digits is no index of anything that
# fits in memory, and int() of very long digits is slow.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def parse(pointer: str) -> Tokens:
    """Return the reference tokens of ``pointer``, unescaped; ``""`` is the whole document.

    Raises:
        ValueError: No leading slash, or a ``~`` that is not ``~0`` or ``~1``.
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer: it does not start with '/'")
    if "~" not in pointer:
        return tuple(pointer[1:].split("/"))
    if _BAD_ESCAPE.search(pointer):
        raise ValueError(f"{pointer!r} is not a JSON pointer: '~' must be written ~0, and '/' in a name ~1")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def escape(token: str) -> str:
    """Return ``token`` as it is written in a pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def format_tokens(tokens: Sequence[str]) -> str:
    """Return the pointer that `parse` turns into ``tokens``."""
    return "".join(f"/{escape(token)}" for token in tokens)


def parse_index(token: str) -> int:
    """Return the array index that ``token`` writes; raises OperationError if it is none."""
    if not _INDEX.fullmatch(token):
        raise OperationError(f"{token!r} is not an array index")
    return int(token)


def locate(node: JSON, token: str) -> str | int:
    """Return the key or the index that ``token`` means in ``node``; raises OperationError if nothing is there."""
    if isinstance(node, dict):
        if token not in node:
            raise OperationError(f"member {token!r} does not exist")
        return token
    if isinstance(node, list):
        index = parse_index(token)
        if index >= len(node):
            raise OperationError(f"index {index} is out of range: the array has {len(node)} elements")
        return index
    raise OperationError(f"{token!r} is looked for in a value that is neither object nor array")


def resolve(document: JSON, pointer: str) -> JSON:
    """Return what ``pointer`` names in ``document``.

    Raises:
        ValueError: ``pointer`` is malformed.
        LookupError: There is nothing at that place.
    """
    try:
        for token in parse(pointer):
            document = document[locate(document, token)]
    except OperationError as refusal:
        raise LookupError(f"{pointer}: {refusal}") from None
    return document
