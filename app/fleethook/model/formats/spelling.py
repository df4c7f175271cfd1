"""Suggest a known name for a name that is probably misspelled."""

from collections.abc import Iterable
from typing import Final

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
