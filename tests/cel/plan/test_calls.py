import pytest

from fleethook.cel import EvaluationError
from fleethook.cel.evaluation import COST, Frame, LimitReachedError
from fleethook.cel.plan.calls import attempt, charge, compile_call, compile_logic
from fleethook.cel.plan.costs import CallCost
from fleethook.cel.values.values import CelError
from tests.cel.evaluating import evaluate

LIMIT = 100
FAULT = CelError("fault")


def frame() -> Frame:
    return [0, LIMIT]


def fail() -> None:
    raise ValueError("wrong")


def test_a_charge_beyond_the_limit_ends_the_evaluation() -> None:
    state = frame()
    charge(state, LIMIT)
    with pytest.raises(LimitReachedError):
        charge(state, 1)


def test_an_exception_of_a_function_becomes_the_error_of_the_expression() -> None:
    result = attempt(fail, ())

    assert isinstance(result, CelError)
    assert result.text == "wrong"


@pytest.mark.parametrize(("count", "cost"), [(1, 7), (2, 7), (3, 0)])
def test_a_call_with_an_error_among_up_to_two_arguments_is_charged(count: int, cost: int) -> None:
    """cel-go evaluates and charges unary and binary calls before it looks at errors, other calls after that."""
    arguments = [lambda _: FAULT, *([lambda _: 1] * (count - 1))]
    state = frame()

    assert compile_call(print, arguments, CallCost(7))(state) is FAULT
    assert state[COST] == cost


def test_a_call_evaluates_all_arguments_before_it_returns_the_first_error() -> None:
    evaluated: list[int] = []

    def argument(state: Frame) -> CelError:
        evaluated.append(len(evaluated))
        return FAULT

    assert compile_call(print, [argument, argument, argument], CallCost())(frame()) is FAULT
    assert evaluated == [0, 1, 2]


@pytest.mark.parametrize(
    ("left", "right", "conjunction", "disjunction"),
    [
        (True, False, False, True),
        (True, True, True, True),
        (False, False, False, False),
        (FAULT, False, False, FAULT),
        (FAULT, True, FAULT, True),
        (True, FAULT, FAULT, True),
    ],
)
def test_a_decisive_operand_hides_an_error(
    left: object, right: object, conjunction: object, disjunction: object
) -> None:
    codes = (lambda _: left), (lambda _: right)

    assert compile_logic(*codes, decisive=False)(frame()) is conjunction
    assert compile_logic(*codes, decisive=True)(frame()) is disjunction


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas in [1, 2, 3] && !(object.spec.replicas in [1, 2])",
        "(object.spec.replicas > 2 ? object.kind : object.absent) == 'Pod'",
        "optional.none().or(optional.of(1)).value() == 1 && optional.of(2).or(object.absent).value() == 2",
        "optional.of(2).orValue(object.absent) == 2",
    ],
)
def test_operators_evaluate_only_the_operands_that_they_need(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize("expression", ["object.spec.replicas ? true : false", "object.kind || false"])
def test_a_condition_must_be_bool(expression: str) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate(expression)
