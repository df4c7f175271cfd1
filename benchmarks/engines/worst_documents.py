"""Hostile documents: an ordinary review in which one value is replaced by a long one."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_MARK = "@@worst@@"
_DEPTH = 100
# Nearly as deep as Python's recursion limit, so that only a decoder handles it.
_DEEPEST = 900
_DIGITS = 4000
Path = tuple[str | int, ...]


class Base(NamedTuple):
    """An ordinary review of a route."""

    route: str
    name: str
    review: dict[str, Any]


class Hostile(NamedTuple):
    """A review of which one value grows."""

    base: Base
    path: Path
    growth: str

    @property
    def pointer(self) -> str:
        return "".join(f"/{step}" for step in self.path)


def _repeat(unit: str, size: int) -> str:
    return unit * max(1, size // len(unit.encode()))


def _members(size: int, *, equal: bool) -> str:
    count = max(1, size // 13)
    return "{" + ",".join(f'"{"k" if equal else f"k{number:07}"}":1' for number in range(count)) + "}"


def _elements(size: int, template: str) -> str:
    count = max(1, size // (len(template) + 8))
    return "[" + ",".join(template.replace("#", f"{number:07}") for number in range(count)) + "]"


def _list(element: str, size: int) -> str:
    return f"[{','.join([element] * max(1, size // (len(element) + 1)))}]"


def _text(unit: str) -> Callable[[int], str]:
    return lambda size: f'"{_repeat(unit, size)}"'


_GROWTHS: dict[str, Callable[[int], str]] = {
    "digits": _text("1"),
    "decimals": lambda size: f'"0.{"1" * size}"',
    "number": lambda size: "0." + "1" * size,
    "integers": lambda size: _list("1" * _DIGITS, size),
    "letters": _text("a"),
    "wide letters": _text("ä"),
    "quotes": _text('\\"'),
    "controls": _text("\\u001b"),
    "slashes": _text("/"),
    "tildes": lambda size: f'"/{_repeat("~1", size)}"',
    "dots": _text("a."),
    "dashes": _text("a-"),
    "commas": _text("a=b,"),
    "pools": _text("{{nodepool}}"),
    "braces": _text("{{"),
    "brackets": lambda size: f'"/{_repeat("[a=b]", size)}"',
    "spaces": lambda size: f'"{" " * size}x"',
    "dollars": _text("$("),
    "address": lambda size: f'"https://a/{_repeat("a/", size)}"',
    "user": lambda size: f'"https://{_repeat("a:", size)}@b/"',
    "query": lambda size: f'"https://a/?{_repeat("a=b&", size)}"',
    "lists": lambda size: _list("[" * _DEPTH + "]" * _DEPTH, size),
    "objects": lambda size: _list('{"a":' * _DEPTH + "1" + "}" * _DEPTH, size),
    "deepest lists": lambda size: _list("[" * _DEEPEST + "]" * _DEEPEST, size),
    "zeros": lambda size: _list("0", size),
    "nulls": lambda size: _list("null", size),
    "empties": lambda size: _list("{}", size),
    "named": lambda size: _elements(size, '{"name":"n#"}'),
    "equally named": lambda size: _elements(size, '{"name":"n"}'),
    "texts": lambda size: _elements(size, '"t#"'),
    "wide": lambda size: _members(size, equal=False),
    "equal keys": lambda size: _members(size, equal=True),
}


def _copies(value: Any, size: int) -> str:
    """Return a list with many copies of its first element, or an object with its first value under many names."""
    if isinstance(value, list):
        return _list(_dumps(value[0]), size)
    member = _dumps(next(iter(value.values())))
    count = max(1, size // (len(member) + 12))
    return "{" + ",".join(f'"k{number:07}":{member}' for number in range(count)) + "}"


def _number_copies(value: Any, size: int) -> str:
    """Return a list with many copies of its first element, each of another name."""
    element, name = _dumps(value[0]), _dumps(value[0]["name"])[1:-1]
    count = max(1, size // (len(element) + 8))
    made = (element.replace(f'"name":"{name}"', f'"name":"{name}{number}"', 1) for number in range(count))
    return f"[{','.join(made)}]"


COPIES, NUMBERED = "copies", "numbered copies"
GROWTHS = (*_GROWTHS, COPIES, NUMBERED)


def _grow(value: Any, growth: str, size: int) -> str | None:
    """Return the replacement of a value, None if the growth needs a value of another type."""
    if growth == COPIES:
        return _copies(value, size) if isinstance(value, dict | list) and value else None
    if growth == NUMBERED:
        first = value[0] if isinstance(value, list) and value else None
        named = isinstance(first, dict) and isinstance(first.get("name"), str)
        return _number_copies(value, size) if named else None
    return _GROWTHS[growth](size)


# A growth may be longer than its size by these: quotation marks, brackets, the rest of an element.
_MARGIN = 64


class Around(NamedTuple):
    """A place in a review."""

    before: bytes
    after: bytes
    value: Any

    def body(self, growth: str, size: int) -> bytes | None:
        """Return a review of at most ``size`` bytes, None if the value cannot grow like that.

        A review that is longer without any growth stays a few bytes longer.
        """
        grown = _grow(self.value, growth, max(1, size - len(self.before) - len(self.after) - _MARGIN))
        return None if grown is None else self.before + grown.encode() + self.after


def around(base: Base, path: Path) -> Around:
    """Return a place in a review."""
    marked = json.loads(json.dumps(base.review))  # decoded, so that no value is shared
    parent: Any = marked
    for step in path[:-1]:
        parent = parent[step]
    value, parent[path[-1]] = parent[path[-1]], _MARK
    before, _, after = _dumps(marked).partition(f'"{_MARK}"')
    return Around(before.encode(), after.encode(), value)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _paths(member, (*path, name))
    elif isinstance(value, list) and value:
        yield from _paths(value[0], (*path, 0))


def choose(bases: Sequence[Base], count: int, *, seed: int) -> list[Hostile]:
    """Return hostile reviews of a route: all, or as many as wanted, the same ones each time.

    Args:
        bases: The ordinary reviews of the route.
        count: How many at most.
        seed: For the choice.
    """
    places = [(base, path) for base in bases for path in _paths(base.review)]
    everything = len(places) * len(GROWTHS)
    chosen = sorted(random.Random(seed).sample(range(everything), min(count, everything)))
    return [Hostile(*places[number // len(GROWTHS)], GROWTHS[number % len(GROWTHS)]) for number in chosen]
