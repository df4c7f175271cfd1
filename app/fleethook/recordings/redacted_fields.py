"""Fields whose values a recording replaces by hashes, as the setting ``record_redact`` names them."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from fleethook.model.json import JSON
from fleethook.patch.pointer import parse

_NAME: Final = re.compile(r"[^/:*\s]+")
ANY: Final = "*"


class Field(NamedTuple):
    """A field of objects.

    Attributes:
        kind: The kind of the objects, ``""`` for all kinds.
        tokens: The path in the object; ``*`` stands for any member or element. A single name without path, for members
            of that name anywhere, has ``kind`` ``*``.
    """

    kind: str
    tokens: tuple[str, ...]

    @property
    def is_name(self) -> bool:
        """Whether the field is every member of a name."""
        return self.kind == ANY

    @property
    def needle(self) -> str:
        """A name that occurs in every review with the field."""
        return next(token for token in reversed(self.tokens) if token not in ("", ANY))


def parse_field(text: str) -> Field:
    """Return the field that a text names.

    Args:
        text: ``name`` for each member of that name, or ``/path/to/*/field`` in each object, or
            ``Kind:/path/to/*/field`` in each object of a kind.

    Raises:
        ValueError: The text names no field.
    """
    if _NAME.fullmatch(text):
        return Field(ANY, (text,))
    kind, _, path = ("", "", text) if text.startswith("/") else text.partition(":")
    tokens = tuple(parse(path)) if path.startswith("/") else ()
    has_kind = path == text or _NAME.fullmatch(kind) is not None
    if not has_kind or not any(token not in ("", ANY) for token in tokens):
        raise ValueError(f"{text!r} names no field: write a name, /path/to/*/field or Kind:/path/to/*/field")
    return Field(kind, tokens)


def replace_at(value: JSON, tokens: tuple[str, ...], replace: Callable[[JSON], JSON]) -> JSON:
    """Return a value in which ``replace`` has replaced all values at a path."""
    if not tokens:
        return replace(value)
    token, rest = tokens[0], tokens[1:]
    if isinstance(value, dict):
        return {
            name: replace_at(member, rest, replace) if token in (ANY, name) else member
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [
            replace_at(element, rest, replace) if token in (ANY, str(index)) else element
            for index, element in enumerate(value)
        ]
    return value


def nest(tokens: tuple[str, ...], value: JSON) -> JSON:
    """Return an object that has a value at a path."""
    for token in reversed(tokens):
        value = {token: value}
    return value


def unnest(tokens: tuple[str, ...], value: JSON) -> JSON:
    """Return the value at a path; if a hash replaced a part of the path, return the hash."""
    for token in tokens:
        if not isinstance(value, dict):
            break
        value = value[token]
    return value
