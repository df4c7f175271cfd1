"""Costs of expressions, as kube-apiserver counts them: see cel/README.md."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from app.dispatch.cel import AccessDecision, AccessQuestion, Activation, EvaluationError, compile_condition

_DIRECTORY: Final = Path(__file__).parent / "cel"
_INPUT: Final[dict[str, Any]] = json.loads((_DIRECTORY / "expressions.json").read_text())
_MEASURED: Final[list[dict[str, Any]]] = json.loads((_DIRECTORY / "costs.json").read_text())


class _AllowGet(dict[AccessQuestion, AccessDecision]):
    """Answers every question of the authorizer: the verb get is allowed."""

    def get(self, question: AccessQuestion, default: object = None) -> AccessDecision:  # type: ignore[override]  # noqa: ARG002
        allowed = question.verb == "get"
        return AccessDecision(allowed, "granted" if allowed else "")

    def __bool__(self) -> bool:
        return True


def test_every_expression_was_measured() -> None:
    assert [one["expression"] for one in _MEASURED] == _INPUT["expressions"]
    assert len(_MEASURED) > 500


@pytest.mark.parametrize("measured", _MEASURED, ids=lambda measured: measured["expression"][:60])
def test_costs_are_those_of_an_apiserver(measured: dict[str, Any]) -> None:
    scope = Activation(object_=_INPUT["object"], old_object=None, request=_INPUT["request"], access=_AllowGet())
    program = compile_condition(measured["expression"])
    try:
        value, cost, _ = program.measure(scope)
        answer: object = value
    except EvaluationError as error:
        answer, cost = "error", error.cost

    expected = "error" if "error" in measured else measured["value"]
    assert (answer, cost) == (expected, measured["cost"])
