"""Checks whether a workload already matches its template, without building the merged object as `overlay` does.

The check is compiled once per plan, because most reviews need it and most answers are yes: OpenYurt's controller writes
workloads from the same template. It may say no where `overlay` would change nothing, never yes where it would change
something.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from app.model.json import JSON, JSONObject
from app.overrider.pool_mark import POOL_MARK

Check = Callable[[JSON], bool]
"""Raises KeyError or TypeError where a member is missing or an object is expected; `Matcher` catches them."""
Path = tuple[str | int, ...]


class Matcher(NamedTuple):
    """Checks whether an object says all that is desired; members that it has besides do not matter."""

    check: Check
    """For what is the same in every pool."""
    marked: tuple[tuple[Path, str], ...]
    """Where a text is that has the pool's mark."""

    def matches(self, current: JSON, pool: str) -> bool:
        """Return whether ``current`` says all that is desired of the workload of a pool."""
        try:
            return self.check(current) and all(
                value_of(current, path) == text.replace(POOL_MARK, pool) for path, text in self.marked
            )
        except (KeyError, IndexError, TypeError):
            return False


def value_of(document: JSON, path: Path) -> JSON:
    """Return the value at a path; raises KeyError, IndexError or TypeError where there is none."""
    for token in path:
        document = document[token]
    return document


def compile_matcher(named: JSONObject) -> Matcher:
    """Return a check whether an object says all that ``named`` says."""
    marked: list[tuple[Path, str]] = []
    return Matcher(_object_check(named, (), marked), tuple(marked))


def _is_marked(value: JSON, path: Path, marked: list[tuple[Path, str]]) -> bool:
    if isinstance(value, str) and POOL_MARK in value:
        marked.append((path, value))
        return True
    return False


def _object_check(named: JSONObject, path: Path, marked: list[tuple[Path, str]]) -> Check:
    named = {name: value for name, value in named.items() if not _is_marked(value, (*path, name), marked)}
    plain = tuple(name for name, value in named.items() if not isinstance(value, (dict, list)))
    nested = tuple(
        (name, value, _check(value, (*path, name), marked)) for name, value in named.items() if name not in plain
    )
    if not plain:
        return lambda current: type(current) is dict and _nested(current, nested)
    read = itemgetter(*plain)
    wanted = read(named)
    return lambda current: read(current) == wanted and _nested(current, nested)


def _nested(current: JSON, nested: tuple[tuple[str, JSON, Check], ...]) -> bool:
    for name, value, check in nested:  # noqa: SIM110 - a generator would cost as much again
        # Comparing costs little where it fails, as it does at the first look where the apiserver added defaults.
        if (present := current[name]) != value and not check(present):
            return False
    return True


def _check(named: JSON, path: Path, marked: list[tuple[Path, str]]) -> Check:
    return _object_check(named, path, marked) if isinstance(named, dict) else _list_check(named, path, marked)


def _list_check(named: list[JSON], path: Path, marked: list[tuple[Path, str]]) -> Check:
    """A longer list may hold what others added: whether that stands takes merge keys, and so a closer look."""
    length = len(named)
    checks = tuple((value, _element_check(value, (*path, position), marked)) for position, value in enumerate(named))

    def matches(current: JSON) -> bool:
        if type(current) is not list or len(current) != length:
            return False
        return all(present == value or check(present) for present, (value, check) in zip(current, checks, strict=True))

    return matches


def _element_check(value: JSON, path: Path, marked: list[tuple[Path, str]]) -> Check:
    if isinstance(value, (dict, list)):
        return _check(value, path, marked)
    return _always if _is_marked(value, path, marked) else _never


def _always(_: JSON) -> bool:
    return True


def _never(_: JSON) -> bool:
    return False
