"""Texts in errors, as Go quotes them."""

import json
from typing import Final

# An error is for people: a text of megabytes is not repeated to them.
_MAX_CHARACTERS: Final = 256


def quote_text(text: str) -> str:
    """Return ``text`` in double quotes (Go's %q, to all appearances)."""
    return json.dumps(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...", ensure_ascii=False)
