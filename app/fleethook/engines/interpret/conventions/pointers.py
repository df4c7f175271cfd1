"""JSON pointers with wildcards: ``*`` stands for any element or member, ``**`` for any path, or none.

A name such as ``*SecretRef`` stands for all members whose names end so.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from fleethook.model.json import JSON
from fleethook.patch import parse_pointer


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
    for one in _step(value, tokens[0]):
        yield from _find(one, tokens[1:])


def _step(value: JSON, name: str) -> Iterable[JSON]:
    if name == "**":
        return walk(value)
    if name == "*":
        return _list_inner(value)
    if isinstance(value, dict):
        if "*" in name:
            return [value[member] for member in value if fnmatchcase(member, name)]
        return [value[name]] if name in value else []
    if isinstance(value, list) and name.isdecimal():
        return value[int(name) : int(name) + 1]
    return []


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
