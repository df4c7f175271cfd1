"""Decodes equal pod templates of a namespace once, and stores the checks that a template has passed."""

from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from fleethook.model.json import JSON

MAX_TEMPLATE_BYTES: Final = 8 * 1024
"""Bytes of the largest template that is cached; decoded, it takes about six times as much."""
MAX_TEMPLATES: Final = 1024
_MAX_CHECKS: Final = 8

_decode_object: Final = msgspec.json.Decoder().decode


class CachedTemplate:
    """A decoded template.

    Attributes:
        value: The template.
        passed: Checks that the template has passed, at most eight.
    """

    __slots__ = ("__weakref__", "passed", "value")

    def __init__(self, value: JSON) -> None:
        """Store a template that no check has seen."""
        self.value: Final = value
        self.passed: Final[set[object]] = set()

    def add(self, check: object) -> None:
        """Store a check that the template has passed."""
        if len(self.passed) == _MAX_CHECKS:
            self.passed.clear()  # Most are checks of former plans.
        self.passed.add(check)


_cached: Final[WeakValueDictionary[int, CachedTemplate]] = WeakValueDictionary()


@lru_cache(maxsize=MAX_TEMPLATES)
def _remember(owner: tuple[str, str], text: bytes) -> CachedTemplate:
    # Namespaces share no entries. Otherwise the time of an answer tells a tenant whether another one has a template.
    del owner
    template = CachedTemplate(_decode_object(text))
    _cached[id(template.value)] = template
    return template


def decode_template(text: msgspec.Raw, *, cluster: str, namespace: str) -> JSON:
    """Return a decoded template; raises msgspec.DecodeError, UnicodeDecodeError or RecursionError."""
    if len(text) > MAX_TEMPLATE_BYTES:
        decoded: JSON = _decode_object(text)
        return decoded
    return _remember((cluster, namespace), bytes(text)).value


def find_template(value: JSON) -> CachedTemplate | None:
    """Return the entry of a template that `decode_template` returned, None if it is not cached."""
    template = _cached.get(id(value))
    return template if template is not None and template.value is value else None
