"""Types of decoded JSON.

``JSON`` is ``Any`` on purpose: with a recursive alias, each index expression would need a cast in code that walks
documents of unknown shape. Structs describe documents of known shape.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

JSON: TypeAlias = Any
JSONObject: TypeAlias = dict[str, Any]


def as_object(value: JSON) -> Mapping[str, JSON]:
    """Return ``value`` if it is a JSON object, else an empty one, to read optional fields of unvalidated objects."""
    return value if isinstance(value, dict) else {}


def enumerate_objects(value: JSON) -> Iterator[tuple[int, JSONObject]]:
    """Yield the JSON objects in a list with their positions; nothing for another value."""
    for number, element in enumerate(value if isinstance(value, list) else ()):
        if isinstance(element, dict):
            yield number, element
