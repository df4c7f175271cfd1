"""Escape control characters of untrusted text in output.

Names in archives, URLs and reviews may contain escape sequences, which a terminal executes, line separators, which
forge log lines, and bidirectional controls, which reorder the displayed text (CVE-2021-42574). All output for people
(terminal, log, condition, event) passes through `escape` or `escape_json`.
"""

import re
from typing import Final

# Cc (C0, DEL and C1 with U+0085), Zl and Zp, Bidi_Control, the deprecated format characters of its block, and Cs, which
# UTF-8 cannot encode.
_ACTIVE_CLASS: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff"
_ACTIVE: Final = re.compile(f"[{_ACTIVE_CLASS}]")
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


def _escape_character(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
