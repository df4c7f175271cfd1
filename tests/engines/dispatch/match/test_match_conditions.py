"""matchConditions in order: results, errors and limits."""

from fleethook.cel.program import Activation
from fleethook.engines.dispatch.match.match_conditions import (
    ConditionsVerdict,
    MatchCondition,
    evaluate_conditions,
    is_short,
)

BROKEN = MatchCondition("broken", "object.absent == 1")
YES = MatchCondition("yes", "true")
NO = MatchCondition("no", "object.kind == 'Job'")
DEAR = MatchCondition("dear", "lists.range(160000).all(x, x >= 0)")
"""A condition that costs almost the limit of one expression."""
BROKEN_TEXT = "expression 'object.absent == 1' resulted in error: no such key: absent"
BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def evaluate(*conditions: MatchCondition, fail_open: bool = False) -> ConditionsVerdict:
    request = {"operation": "CREATE", "userInfo": {"username": "jane"}}
    scope = Activation(object_={"kind": "Pod"}, old_object=None, request=request)
    return evaluate_conditions(conditions, scope, fail_open=fail_open)


def test_a_false_condition_skips_the_webhook_even_after_an_error() -> None:
    assert evaluate(BROKEN, NO, YES) == ConditionsVerdict(
        matched=False, failed="no", results=(("broken", f"error: {BROKEN_TEXT}"), ("no", "false"), ("yes", "true"))
    )


def test_the_first_false_condition_is_reported() -> None:
    other = MatchCondition("other", "false")

    assert evaluate(YES, NO, other).failed == "no"
    assert evaluate(other, NO).failed == "other"


def test_exceeding_the_cost_limit_outweighs_a_false_condition() -> None:
    assert evaluate(NO, *[DEAR] * 3).errors == (BUDGET,)
    assert evaluate(NO, *[DEAR] * 3, fail_open=True) == ConditionsVerdict(
        matched=False, results=(("no", "false"), *[("dear", "true")] * 2)
    )


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
