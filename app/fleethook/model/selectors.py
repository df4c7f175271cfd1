"""Compile and validate label selectors (``metav1.LabelSelector``, k8s.io/apimachinery/pkg/labels)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fleethook.model.formats.names import label_key_problem, label_value_problem
from fleethook.model.json import JSON, as_object

Selects = Callable[[Mapping[str, str]], bool]

_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})


def compile_selector(selector: JSON) -> Selects:
    """Return a function that returns whether a selector selects a set of labels.

    As in ``metav1.LabelSelectorAsSelector``, a missing selector selects nothing and an empty one everything. A selector
    with a field of a wrong type, or with a requirement that `validate_selector` refuses, selects nothing.
    """
    if not isinstance(selector, dict):
        return lambda _labels: False
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(wanted, dict) or not isinstance(expressions, list):
        return lambda _labels: False
    tests = [_compile_requirement(requirement) for requirement in expressions]

    def selects(labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in wanted.items()) and all(test(labels) for test in tests)

    return selects


def _compile_requirement(requirement: JSON) -> Selects:
    members = as_object(requirement)
    key, operator, given = members.get("key"), members.get("operator"), members.get("values") or []
    if not isinstance(key, str) or not isinstance(given, list):
        return lambda _labels: False
    values = frozenset(value for value in given if isinstance(value, str))
    if operator == "In":
        return lambda labels: _has_one_of(labels, key, values)
    if operator == "NotIn":
        # NotIn also selects objects without the label.
        return lambda labels: not _has_one_of(labels, key, values)
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    return lambda _labels: False


def _has_one_of(labels: Mapping[str, JSON], key: str, values: frozenset[str]) -> bool:
    """Return whether a label has one of some values; in unvalidated objects, the value may be of any type."""
    value = labels.get(key)
    return isinstance(value, str) and value in values


def validate_selector(selector: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Yield the problems of ``selector``: a JSON pointer that starts with ``path``, and a message."""
    if not isinstance(selector, dict):
        yield path, "must be an object"
        return
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if isinstance(wanted, dict):
        yield from _label_problems(wanted, f"{path}/matchLabels")
    else:
        yield f"{path}/matchLabels", "must be an object"
    if not isinstance(expressions, list):
        yield f"{path}/matchExpressions", "must be a list"
        return
    for number, requirement in enumerate(expressions):
        yield from _requirement_problems(requirement, f"{path}/matchExpressions/{number}")


def _label_problems(wanted: Mapping[str, JSON], path: str) -> Iterator[tuple[str, str]]:
    for key, value in wanted.items():
        if problem := label_key_problem(key):
            yield path, problem
        if not isinstance(value, str):
            yield path, f"the value of {key!r} must be text"
        elif problem := label_value_problem(value):
            yield path, problem


def _requirement_problems(requirement: JSON, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(requirement, dict):
        yield path, "must be an object"
        return
    key, operator, values = requirement.get("key"), requirement.get("operator"), requirement.get("values") or []
    if problem := label_key_problem(key if isinstance(key, str) else ""):
        yield f"{path}/key", problem
    if not isinstance(operator, str):
        yield f"{path}/operator", "must be text: In, NotIn, Exists or DoesNotExist"
    elif operator in _WITH_VALUES and not values:
        yield f"{path}/values", f"must be given when the operator is {operator}"
    elif operator in _WITHOUT_VALUES and values:
        yield f"{path}/values", f"must be empty when the operator is {operator}"
    elif operator not in _WITH_VALUES | _WITHOUT_VALUES:
        yield f"{path}/operator", f"must be In, NotIn, Exists or DoesNotExist, not {operator!r}"
    if not isinstance(values, list):
        yield f"{path}/values", "must be a list"
        return
    for value in values:
        problem = label_value_problem(value) if isinstance(value, str) else "must be text"
        if problem:
            yield f"{path}/values", problem
