"""Decoded JSON, as the engines pass it around.

``JSON`` is ``Any`` on purpose: a recursive alias would put a cast on every index expression of code whose whole
subject is walking documents of unknown shape. What is known about a document is said by a struct instead.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

JSON: TypeAlias = Any
JSONObject: TypeAlias = dict[str, Any]


def as_object(value: JSON) -> Mapping[str, JSON]:
    """``value`` if it is a JSON object, else an empty one: for reading optional members of foreign objects."""
    return value if isinstance(value, dict) else {}
