"""Quotes strings in errors as Go does."""

import json
from typing import Final

# Errors are for people, so they do not repeat a string of megabytes.
_MAX_CHARACTERS: Final = 256
_ESCAPES: Final = dict(
    zip('\a\b\f\n\r\t\v\\"', (r"\a", r"\b", r"\f", r"\n", r"\r", r"\t", r"\v", r"\\", r"\""), strict=True)
)
_CEL_ESCAPES: Final = str.maketrans(_ESCAPES)


def quote_text(text: str) -> str:
    """Return ``text`` in double quotes for an error, like Go's %q for printable characters; a long text is cut."""
    return json.dumps(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...", ensure_ascii=False)


def quote(text: str) -> str:
    """Return ``text`` in double quotes with Go's escapes (Go: strconv.Quote)."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote_cel(text: str) -> str:
    """Return ``text`` in double quotes with CEL's escapes (cel-go: ext/strings.go, strings.quote)."""
    return f'"{text.translate(_CEL_ESCAPES)}"'
