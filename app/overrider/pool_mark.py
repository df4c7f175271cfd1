"""A stand-in for a node pool's name, so that one plan serves all pools that differ by their name alone.

A plan is compiled with the mark as the name of its pool. What depends on the pool is then where the mark is: in a few
labels, in a node selector, in values that say ``{{nodepool}}``. Filling in a name costs some microseconds, where
compiling costs a millisecond.
"""

import re
from typing import Any, Final

import msgspec

from app.model.json import JSON

# Characters for private use: no name, label or value that an apiserver takes for one has them.
POOL_MARK: Final = "\ue000pool\ue001"
# A number of replicas that nobody asks for. It stands for the pool's own.
REPLICAS_MARK: Final = 2_147_480_017
_SAFE: Final = re.compile(r"[A-Za-z0-9._-]+")


def is_safe_name(pool: str) -> bool:
    """Return whether a pool's name needs no escaping in JSON, so that it can be filled into a text."""
    return _SAFE.fullmatch(pool) is not None


def has_mark(value: object) -> bool:
    """Return whether a value that JSON can express has either mark in it."""
    text = msgspec.json.encode(value)
    return POOL_MARK.encode() in text or str(REPLICAS_MARK).encode() in text


def mark_name(value: JSON, pool: str) -> JSON:
    """Return ``value`` with the mark for every text that is the pool's name."""
    if isinstance(value, str):
        return POOL_MARK if value == pool else value
    if isinstance(value, dict):
        return {name: mark_name(inner, pool) for name, inner in value.items()}
    if isinstance(value, list):
        return [mark_name(inner, pool) for inner in value]
    return value


def fill_name(value: JSON, pool: str) -> JSON:
    """Return ``value`` with the pool's name for the mark, for values that are small."""
    if isinstance(value, str):
        return value.replace(POOL_MARK, pool)
    if isinstance(value, dict):
        return {fill_name(name, pool): fill_name(inner, pool) for name, inner in value.items()}
    return [fill_name(inner, pool) for inner in value] if isinstance(value, (list, tuple)) else value


class Filler:
    """Fills a pool's name and replicas into values with marks, leaving everything else shared.

    Which containers have a mark inside is found out once for all pools.
    """

    __slots__ = ("_kept", "_known")

    def __init__(self) -> None:
        """Prepare; nothing is known yet."""
        self._known: Final[dict[int, bool]] = {}
        # An id means the same object only as long as that is alive.
        self._kept: Final[list[object]] = []

    def is_marked(self, value: Any) -> bool:
        """Return whether there is a mark in ``value``: JSON, or named tuples and tuples of JSON."""
        if isinstance(value, str):
            return POOL_MARK in value
        if type(value) is int:
            return value == REPLICAS_MARK
        if not isinstance(value, (dict, list, tuple)):
            return False
        known = self._known.get(id(value))
        if known is None:
            parts = (*value.keys(), *value.values()) if isinstance(value, dict) else value
            known = any([self.is_marked(part) for part in parts])  # noqa: C419 - every part is to be known
            self._known[id(value)] = known
            self._kept.append(value)
        return known

    def fill(self, value: Any, pool: str, replicas: int | None) -> Any:
        """Return ``value`` for a pool; the part of it that has no mark is shared."""
        return self._fill(value, pool, replicas, {})

    def _fill(self, value: Any, pool: str, replicas: int | None, made: dict[int, Any]) -> Any:
        if isinstance(value, str):
            return value.replace(POOL_MARK, pool)
        if type(value) is int:
            return replicas if value == REPLICAS_MARK else value
        if not self.is_marked(value):
            return value
        if id(value) in made:  # Branches that documents share stay shared.
            return made[id(value)]
        filled: Any
        if isinstance(value, dict):
            filled = {
                self._fill(name, pool, replicas, made): self._fill(inner, pool, replicas, made)
                for name, inner in value.items()
            }
        else:
            parts = [self._fill(part, pool, replicas, made) for part in value]
            filled = parts if isinstance(value, list) else self._tuple(value, parts)
        made[id(value)] = filled
        return filled

    @staticmethod
    def _tuple(value: Any, parts: list[Any]) -> Any:
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
