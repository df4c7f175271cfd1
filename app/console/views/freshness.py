"""The age and the problems of the data behind a page."""

from collections.abc import Sequence
from typing import NamedTuple

from app.store.sources.source import PartState


class Freshness(NamedTuple):
    """The age of the data.

    Attributes:
        age: Seconds since the oldest part was known to be current, None if nothing has been read.
        waiting: The parts that were never read.
        problems: A line for each part that cannot be read now.
    """

    age: float | None
    waiting: tuple[str, ...]
    problems: tuple[str, ...]


def summarize_parts(parts: Sequence[PartState]) -> Freshness:
    """Return the age of the oldest part and all problems."""
    ages = [one.age for one in parts if one.age is not None]
    return Freshness(
        max(ages, default=None),
        tuple(one.name for one in parts if not one.synced and one.needed),
        tuple(f"{one.name}: {one.detail}" for one in parts if one.failing),
    )


def describe_age(seconds: float | None) -> str:
    """Return an age as text: ``5 s``, ``3 min``, ``2 h``, ``4 d``; ``never`` for None."""
    if seconds is None:
        return "never"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
