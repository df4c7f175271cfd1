"""JSON pointers with wildcards: ``*`` stands for any element or member, ``**`` for any path, or none.

A name such as ``*SecretRef`` stands for all members whose names end so.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from app.model.json import JSON
from app.patch import parse_pointer


def find_values(document: JSON, pointer: str) -> Iterator[JSON]:
    """Yield the values at a pointer in the order of the document; nothing if there is none.

    Raises:
        ValueError: The pointer is malformed.
    """
    return _find(document, _parse(pointer))


@lru_cache(maxsize=1024)
def _parse(pointer: str) -> tuple[str, ...]:
    return tuple(parse_pointer(pointer))


def _find(value: JSON, tokens: tuple[str, ...]) -> Iterator[JSON]:
    if not tokens:
        yield value
        return
    name, rest = tokens[0], tokens[1:]
    if name == "**":
        for one in walk(value):
            yield from _find(one, rest)
    elif name == "*":
        for one in _list_inner(value):
            yield from _find(one, rest)
    elif isinstance(value, dict):
        if "*" in name:
            for member in [one for one in value if fnmatchcase(one, name)]:
                yield from _find(value[member], rest)
        elif name in value:
            yield from _find(value[name], rest)
    elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        yield from _find(value[int(name)], rest)


def walk(value: JSON) -> Iterator[JSON]:
    """Yield a value and all values inside it, in the order of the document. Documents may be deeper than the stack."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(_list_inner(found)))


def _list_inner(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
