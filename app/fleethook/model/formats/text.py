"""Prepare text for people: escape control characters of untrusted text, shorten it, and suggest a known name.

The only other text is base64, which stands for bytes in JSON.

Names in archives, URLs and reviews may contain escape sequences, which a terminal executes, line separators, which
forge log lines, and bidirectional controls, which reorder the displayed text (CVE-2021-42574). All output for people
(terminal, log, condition, event) passes through `escape` or `escape_json`.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Final

from fleethook.model.json import JSON

# Cc (C0, DEL and C1 with U+0085), Zl and Zp, Bidi_Control, the deprecated format characters of its block, and Cs, which
# UTF-8 cannot encode.
_ACTIVE_CLASS: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff"
_ACTIVE: Final = re.compile(f"[{_ACTIVE_CLASS}]")
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")
_NAMED: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def is_inert(text: str) -> bool:
    """Return whether a text has no control, bidirectional or line separator character."""
    return text.isprintable() or not _ACTIVE.search(text)


def escape(text: str, *, keep: str = "") -> str:
    r"""Return a text with control, bidirectional and line separator characters as ``\n``, ``\x1b`` or ``\u202e``.

    Args:
        text: Any text; all other characters stay as they are.
        keep: Characters that stay as well, such as ``"\n"`` for a text with intended lines.
    """
    # Printable characters are never escaped; this fast path handles nearly all texts.
    if text.isprintable():
        return text
    return _ACTIVE.sub(lambda found: found[0] if found[0] in keep else _escape_character(found[0]), text)


def escape_line(text: str) -> str:
    """Return ``text`` on one line, with unprintable characters escaped, so that it cannot forge a log line."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def escape_json(document: str) -> str:
    r"""Return JSON in which these characters are ``\u`` escapes; its value stays the same.

    Args:
        document: Valid JSON. Outside of strings, it may contain line feeds but no other of these characters.
    """
    return _ACTIVE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", document)


def shorten(text: str, limit: int) -> str:
    """Return the first ``limit`` characters of a text, with the number of omitted characters."""
    left_out = len(text) - limit
    return text if left_out <= 0 else f"{text[:limit]}… ({left_out} characters left out)"


def describe_os_error(error: OSError) -> str:
    """Return the file and the reason of an error of the system, without its number: ``a.yaml: permission denied``."""
    reason = error.strerror or str(error) or type(error).__name__
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{reason[:1].lower()}{reason[1:]}"


def _escape_character(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


# Kubernetes names have at most 253 characters, field names far fewer. The comparison takes time proportional to the
# product of the lengths, so longer texts get no suggestion.
_MAX_LENGTH: Final = 253
# With 0.7, "imageclaim", "conatinerName" and "hangzou" match their name, and "image" does not match "items".
_MIN_SIMILARITY: Final = 0.7


def nearest(name: str, known: Iterable[str], *, similarity: float = _MIN_SIMILARITY) -> str | None:
    """Return the known name that is most similar to ``name``, ignoring case; None if no name is similar."""
    if not name or len(name) > _MAX_LENGTH:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

    folded = {one.casefold(): one for one in known}
    close = get_close_matches(name.casefold(), folded, n=1, cutoff=similarity)
    return folded[close[0]] if close else None


def suggestion(name: str, known: Iterable[str], *, quote: str = "") -> str:
    """Return the end of a message that suggests the nearest known name, ``""`` if there is none.

    Args:
        name: The name as written.
        known: The valid names.
        quote: Put before and after the suggested name.
    """
    found = nearest(name, known)
    return f"; did you mean {quote}{found}{quote}?" if found else ""


def list_names(names: Sequence[str], *, most: int = 3) -> str:
    """Return the first names for a message, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: ``1 pod``, ``1,024 pods``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def decode_bytes(value: JSON) -> bytes:
    """Decode bytes in JSON as Go does: base64 with any line ends (encoding/base64); raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"bytes are a string in base64, not {type(value).__name__}")  # noqa: TRY004 - as for wrong text
    return base64.b64decode(value.translate(_LINE_ENDS), validate=True)
