"""matchConditions in order: results, errors and limits."""

from fleethook.cel import Activation
from fleethook.engines.dispatch.match.match_conditions import (
    Condition,
    ConditionsVerdict,
    evaluate_conditions,
    is_short,
)

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


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
