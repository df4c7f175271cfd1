"""Quotes strings in errors as Go does."""

import json
from typing import Final

# Errors are for people, so they do not repeat a string of megabytes.
_MAX_CHARACTERS: Final = 256


def quote_text(text: str) -> str:
    """Return ``text`` in double quotes, like Go's %q for printable characters; a long text is cut."""
    return json.dumps(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...", ensure_ascii=False)
