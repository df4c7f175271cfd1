"""Texts in errors, as Go quotes them."""

import json
from typing import Final

# An error is for people: a text of megabytes is not repeated to them.
_LONGEST: Final = 256


def quoted(text: str) -> str:
    """Return ``text`` in double quotes (Go's %q, to all appearances)."""
    return json.dumps(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...", ensure_ascii=False)
