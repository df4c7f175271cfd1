import pytest

from fleethook.cel import CostError, EvaluationError, ExpressionError, PendingChecksError, compile_condition
from fleethook.cel.program import (
    LIMITS,
    MAX_EXPANDED_LENGTH,
    MAX_LENGTH,
    EvaluationLimits,
    Measurement,
    check_length,
    compute_expanded_length,
)
from tests.cel.evaluating import bind

CHECK = "authorizer.path('/healthz').check('get').allowed()"


def test_a_measurement_has_the_result_and_its_usage() -> None:
    assert compile_condition("object.kind == 'Pod'").measure(bind()) == Measurement(value=True, cost=3, used=3)


def test_work_counts_a_quarter_of_the_cost() -> None:
    measurement = compile_condition("object.l == oldObject.l").measure(
        bind({"l": [1] * 400}, old_object={"l": [1] * 400})
    )

    assert measurement.used == measurement.cost + 100


@pytest.mark.parametrize("limits", [LIMITS._replace(cost=2), LIMITS._replace(work=399)])
def test_either_limit_ends_the_evaluation(limits: EvaluationLimits) -> None:
    condition, activation = (
        compile_condition("object == oldObject"),
        bind({"l": [1] * 400}, old_object={"l": [1] * 400}),
    )
    enough = EvaluationLimits(cost=3, work=401)

    assert condition.measure(activation, enough).value
    with pytest.raises(CostError) as failed:
        condition.measure(activation, limits)
    assert failed.value.cause == "operation cancelled: actual cost limit exceeded"
    assert failed.value.cost > 0


def test_an_error_has_the_usage_until_then() -> None:
    with pytest.raises(EvaluationError) as failed:
        compile_condition("object.kind == 'Pod' && object.absent == 1").evaluate(bind())

    assert (
        str(failed.value)
        == "expression 'object.kind == 'Pod' && object.absent == 1' resulted in error: no such key: absent"
    )
    assert failed.value.cost == failed.value.used == 3 + 3


def test_pending_checks_are_collected() -> None:
    with pytest.raises(PendingChecksError, match="1 access checks have no decision yet") as undecided:
        compile_condition(CHECK).evaluate(bind(access={}))
    assert [question.path for question in undecided.value.questions] == ["/healthz"]


def test_a_long_string_increases_the_size_of_a_program() -> None:
    short, long = (compile_condition(f"object.a == '{text}'") for text in ("x", "x" * 5_000))

    assert (short.size, long.size) == (4, 4 + 10)


def test_the_length_of_an_expression_is_limited() -> None:
    check_length("x" * MAX_LENGTH)
    with pytest.raises(ExpressionError, match="longer than 100000 characters"):
        check_length("x" * (MAX_LENGTH + 1))
    with pytest.raises(ExpressionError, match="too many optMap and optFlatMap"):
        check_length("x.optMap(x, x)" * 20)


def test_each_repeating_macro_doubles_the_length() -> None:
    assert compute_expanded_length("a.optMap(x, x).optFlatMap(x, x)") == 31 * 4
    assert compute_expanded_length("a.map(x, x)") == 11
    assert compute_expanded_length(".optMap" * 1_000) > MAX_EXPANDED_LENGTH
