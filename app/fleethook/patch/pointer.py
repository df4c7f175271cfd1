"""JSON Pointer (RFC 6901)."""

import re
from collections.abc import Sequence
from typing import Final

from fleethook.model.json import JSON
from fleethook.patch.limits import OperationError

Tokens = tuple[str, ...]

_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
# RFC 6901 section 4: no leading zeros, no sign, ASCII digits only. No array in memory has an index of more than nine
# digits, and int() of many digits is slow.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def parse(pointer: str) -> Tokens:
    """Return the reference tokens of ``pointer``, unescaped; ``""`` is the whole document.

    Raises:
        ValueError: The leading slash is missing, or a ``~`` is not part of ``~0`` or ``~1``.
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
    """Return ``token`` escaped for use in a pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def format_tokens(tokens: Sequence[str]) -> str:
    """Return the pointer that `parse` turns into ``tokens``."""
    return "".join(f"/{escape(token)}" for token in tokens)


def parse_index(token: str) -> int:
    """Return the array index that ``token`` writes; raises OperationError if it is not an index."""
    if not _INDEX.fullmatch(token):
        raise OperationError(f"{token!r} is not an array index")
    return int(token)


def locate(node: JSON, token: str) -> str | int:
    """Return the key or index of ``token`` in ``node``; raises OperationError if it does not exist."""
    if isinstance(node, dict):
        if token not in node:
            raise OperationError(f"member {token!r} does not exist")
        return token
    if isinstance(node, list):
        index = parse_index(token)
        if index >= len(node):
            raise OperationError(f"index {index} is out of range: the array has {len(node)} elements")
        return index
    raise OperationError(f"no member {token!r}: its parent is neither object nor array")


def resolve(document: JSON, pointer: str) -> JSON:
    """Return the value at ``pointer`` in ``document``.

    Raises:
        ValueError: ``pointer`` is malformed.
        LookupError: ``document`` has no value at ``pointer``.
    """
    try:
        for token in parse(pointer):
            document = document[locate(document, token)]
    except OperationError as refusal:
        raise LookupError(f"{pointer}: {refusal}") from None
    return document
