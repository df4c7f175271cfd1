"""Validates matchConditions (upstream: kubernetes v1.36, pkg/apis/admissionregistration/validation)."""

from collections.abc import Callable, Iterator
from typing import Final

from fleethook.model.formats.field_errors import Problem, duplicate, invalid, mistyped, required
from fleethook.model.formats.names import label_key_problems
from fleethook.model.json import JSON, as_object

_MAX_CONDITIONS: Final = 64

CompileExpression = Callable[[str], object]
"""Raises ValueError with the error of an expression that does not compile or is not a condition.

Its result is ignored.
"""


def condition_problems(
    conditions: JSON, field: str, *, known: frozenset[str], compile_expression: CompileExpression
) -> Iterator[Problem]:
    """Yield the errors of match conditions.

    Args:
        conditions: The conditions, None for none.
        field: The path of the field.
        known: Expressions of the stored configuration, which are not compiled again.
        compile_expression: Compiles all other expressions.
    """
    if conditions is None:
        return
    if not isinstance(conditions, list):
        yield mistyped(field, "a list")
        return
    if len(conditions) > _MAX_CONDITIONS:
        yield Problem(field, f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items")
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place = f"{field}[{index}]"
        if not isinstance(condition, dict):
            yield mistyped(place, "an object")
            continue
        expression, name = condition.get("expression"), condition.get("name")
        yield from _expression_problems(expression, f"{place}.expression", known, compile_expression)
        yield from _name_problems(name, f"{place}.name")
        if isinstance(name, str) and name:
            if name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)


def _expression_problems(
    expression: JSON, field: str, known: frozenset[str], compile_expression: CompileExpression
) -> Iterator[Problem]:
    if expression is not None and not isinstance(expression, str):
        yield mistyped(field, "a string")
        return
    trimmed = (expression or "").strip()
    if not trimmed:
        yield required(field)
    elif trimmed not in known:
        try:
            compile_expression(trimmed)
        except ValueError as error:
            yield invalid(field, trimmed, str(error))


def _name_problems(name: JSON, field: str) -> Iterator[Problem]:
    if name is None or name == "":
        yield required(field)
    elif not isinstance(name, str):
        yield mistyped(field, "a string")
    else:
        yield from (invalid(field, name, text) for text in label_key_problems(name))


def list_expressions(conditions: JSON) -> Iterator[str]:
    """Yield the expressions of stored conditions, unchanged."""
    for condition in conditions if isinstance(conditions, list) else ():
        expression = as_object(condition).get("expression")
        if isinstance(expression, str):
            yield expression
