"""Types of decoded JSON.

``JSON`` is ``Any`` on purpose: with a recursive alias, each index expression would need a cast in code that walks
documents of unknown shape. Structs describe documents of known shape.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

JSON: TypeAlias = Any
JSONObject: TypeAlias = dict[str, Any]


class Absent(enum.Enum):
    """The value of an absent member, which differs from null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


def as_object(value: JSON) -> Mapping[str, JSON]:
    """Return ``value`` if it is a JSON object, else an empty one, to read optional fields of unvalidated objects."""
    return value if isinstance(value, dict) else {}


def copy_json(value: JSON) -> JSON:
    """Return a copy of a value; `copy.deepcopy` takes five times as long."""
    if isinstance(value, dict):
        return {name: copy_json(one) for name, one in value.items()}
    return [copy_json(one) for one in value] if isinstance(value, list) else value


def as_text(value: JSON) -> str:
    """Return ``value`` if it is a text, else ``""``."""
    return value if isinstance(value, str) else ""


def as_list(value: JSON) -> list[JSON]:
    """Return ``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def list_objects(value: JSON) -> list[JSONObject]:
    """Return the JSON objects in a list; nothing for another value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def list_texts(value: JSON) -> list[str]:
    """Return the texts in a list; nothing for another value."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def enumerate_objects(value: JSON) -> Iterator[tuple[int, JSONObject]]:
    """Yield the JSON objects in a list with their positions; nothing for another value."""
    for number, element in enumerate(value if isinstance(value, list) else ()):
        if isinstance(element, dict):
            yield number, element


def count_values(document: JSON, *, limit: int) -> int:
    """Return the number of values in a document; counting stops soon after ``limit``.

    Args:
        document: Decoded JSON.
        limit: The number above which the exact count is irrelevant.
    """
    count, waiting = 1, [document]
    while waiting and count <= limit:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(inner)
        if count <= limit:
            waiting += inner
    return count
