"""Limits the warnings of webhooks before a client gets them (k8s.io/apiserver pkg/endpoints/filters/warning.go)."""

import re
from collections.abc import Iterable
from typing import Final

# The limit of all warnings in characters, and the limit of each warning if they exceed the first one.
_MAX_CHARACTERS: Final = 4096
_MAX_TRUNCATED: Final = 256
# A pattern, not a loop: a text may have 8 MiB, and a loop takes 1 us for 10 characters.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def limit_warnings(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings for a client: without duplicates, empty texts and control characters.

    Up to 4,096 characters are returned in full. Otherwise each warning is truncated to 256 characters, and the first
    ones that fit are returned.
    """
    kept = list(dict.fromkeys(clean for text in texts if (clean := _remove_unprintable(text))))
    if sum(map(len, kept)) <= _MAX_CHARACTERS:
        return tuple(kept)
    remaining, found = _MAX_CHARACTERS, []
    for text in dict.fromkeys(text[:_MAX_TRUNCATED] for text in kept):
        if len(text) > remaining:
            break
        remaining -= len(text)
        found.append(text)
    return tuple(found)


def _remove_unprintable(text: str) -> str:
    # UTF-8 cannot encode surrogates, and a header must be UTF-8.
    return _UNPRINTABLE.sub("", text)
