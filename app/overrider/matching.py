"""Checks whether a workload already matches its template, without building the merged object as `overlay` does.

The check is compiled once per plan, because most reviews need it and most answers are yes: OpenYurt's controller writes
workloads from the same template. It may say no where `overlay` would change nothing, never yes where it would change
something.
"""

from collections.abc import Callable
from operator import itemgetter

from app.model.json import JSON, JSONObject

Check = Callable[[JSON], bool]
"""Raises KeyError or TypeError where a member is missing or an object is expected; `compile_matcher` catches them."""


def compile_matcher(named: JSONObject) -> Check:
    """Return a check whether an object says all that ``named`` says; members that it has besides do not matter."""
    check = _object_check(named)

    def matches(current: JSON) -> bool:
        try:
            return check(current)
        except (KeyError, TypeError):
            return False

    return matches


def _object_check(named: JSONObject) -> Check:
    plain = tuple(name for name, value in named.items() if not isinstance(value, (dict, list)))
    nested = tuple((name, value, _check(value)) for name, value in named.items() if name not in plain)
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


def _check(named: JSON) -> Check:
    return _object_check(named) if isinstance(named, dict) else _list_check(named)


def _list_check(named: list[JSON]) -> Check:
    """A longer list may hold what others added: whether that stands takes merge keys, and so a closer look."""
    length = len(named)
    checks = tuple((value, _check(value) if isinstance(value, (dict, list)) else _never) for value in named)

    def matches(current: JSON) -> bool:
        if type(current) is not list or len(current) != length:
            return False
        return all(present == value or check(present) for present, (value, check) in zip(current, checks, strict=True))

    return matches


def _never(_: JSON) -> bool:
    return False
