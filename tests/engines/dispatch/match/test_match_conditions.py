"""matchConditions in order: results, errors, limits, and compilation in a thread."""

import pytest

from fleethook.cel import Activation, Program
from fleethook.engines.dispatch.match.match_conditions import (
    Compiler,
    Condition,
    ConditionsVerdict,
    Rejected,
    compile_here,
    evaluate_conditions,
    is_short,
)
from fleethook.work.turns import Worker

BROKEN = Condition("broken", "object.absent == 1")
NOT_ONE = Condition("not-one", "absent")
YES = Condition("yes", "true")
NO = Condition("no", "object.kind == 'Job'")
DEAR = Condition("dear", "lists.range(160000).all(x, x >= 0)")
"""A condition that costs almost the limit of one expression."""
BROKEN_TEXT = "expression 'object.absent == 1' resulted in error: no such key: absent"
NOT_ONE_TEXT = (
    "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'absent' (in container '')\n"
    " | absent\n | ^"
)
BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def evaluate(*conditions: Condition, fail_open: bool = False) -> ConditionsVerdict:
    request = {"operation": "CREATE", "userInfo": {"username": "jane"}}
    scope = Activation(object_={"kind": "Pod"}, old_object=None, request=request)
    return evaluate_conditions(conditions, scope, fail_open=fail_open)


def test_no_conditions_match() -> None:
    assert evaluate() == ConditionsVerdict(matched=True)


def test_conditions_that_are_all_true_match() -> None:
    assert evaluate(YES, YES) == ConditionsVerdict(matched=True, results=(("yes", "true"), ("yes", "true")))


def test_a_false_condition_skips_the_webhook_even_after_an_error() -> None:
    assert evaluate(BROKEN, NO, YES) == ConditionsVerdict(
        matched=False, failed="no", results=(("broken", f"error: {BROKEN_TEXT}"), ("no", "false"), ("yes", "true"))
    )


def test_the_first_false_condition_is_reported() -> None:
    other = Condition("other", "false")

    assert evaluate(YES, NO, other).failed == "no"
    assert evaluate(other, NO).failed == "other"


def test_errors_refuse_the_request_with_all_texts() -> None:
    verdict = evaluate(BROKEN, YES, NOT_ONE)

    assert (verdict.matched, verdict.failed, verdict.errors) == (False, "", (BROKEN_TEXT, NOT_ONE_TEXT))


def test_errors_skip_webhooks_with_ignore() -> None:
    verdict = evaluate(BROKEN, YES, fail_open=True)

    assert (verdict.matched, verdict.errors) == (False, ())
    assert verdict.results == (("broken", f"error: {BROKEN_TEXT}"), ("yes", "true"))


def test_exceeding_the_cost_limit_outweighs_a_false_condition() -> None:
    assert evaluate(NO, *[DEAR] * 3).errors == (BUDGET,)
    assert evaluate(NO, *[DEAR] * 3, fail_open=True) == ConditionsVerdict(
        matched=False, results=(("no", "false"), *[("dear", "true")] * 2)
    )


LONG = " || ".join(f"object.name == 'x{number}'" for number in range(100))
INVALID = [
    f"({LONG}",
    f"[{LONG}]",
    f"({LONG}) && objekt.name == 'a'",
    "1" + "+1" * 2_000 + " > 0",
    "object.a" + ".optMap(x, x)" * 30,
    f"'{'x' * 100_000}' == object.name",
    "[" * 240 + "]" * 240 + f" == [] || {LONG}",
]


def bind(name: str) -> Activation:
    return Activation(object_={"name": name}, old_object=None, request={})


async def test_a_long_expression_compiles_to_the_same_program() -> None:
    assert not is_short(LONG)
    compiled, expected = await Compiler(Worker()).compile(LONG, cluster="a"), compile_here(LONG)
    assert isinstance(compiled, Program)
    assert isinstance(expected, Program)
    assert compiled.size == expected.size
    for name in ("x0", "x99", "x100"):
        assert compiled.measure(bind(name)) == expected.measure(bind(name))


@pytest.mark.parametrize("expression", INVALID, ids=range(len(INVALID)))
async def test_an_invalid_long_expression_has_the_same_error(expression: str) -> None:
    compiled, expected = await Compiler(Worker()).compile(expression, cluster="a"), compile_here(expression)
    assert isinstance(compiled, Rejected)
    assert isinstance(expected, Rejected)
    assert str(compiled.error) == str(expected.error)


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
