import pytest

from fleethook.cel import EvaluationError, compile_condition
from fleethook.cel.evaluation import COST, Frame, LimitReachedError
from fleethook.cel.plan.costs import CallCost
from fleethook.cel.plan.nodes import attempt, charge, compile_call, compile_logic
from fleethook.cel.values.values import CelError
from tests.cel.evaluating import bind, evaluate, split_rows

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


@pytest.mark.parametrize(
    "expression",
    [
        "[object.kind, dyn(1)] == [dyn('Pod'), dyn(1)] && {object.kind: 1} == {'Pod': 1} && {true: 'b'}[true] == 'b'",
        "[?object.?absent, dyn(1)] == [1] && [?object.?kind] == ['Pod']",
        "{?'a': object.?absent, 'b': dyn(1)} == {'b': 1} && {?'a': object.?kind} == {'a': 'Pod'}",
    ],
)
def test_literals_have_their_elements(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("[object.absent] == []", "no such key: absent"),
        ("{'a': object.absent} == {}", "no such key: absent"),
    ],
)
def test_an_invalid_element_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


@pytest.mark.parametrize(
    ("expression", "cost"),
    # A list costs 10 and a map 30, object.kind costs 2. Comparing with an empty value and constant literals are free.
    [("[object.kind] != []", 12), ("{'a': object.kind} != {}", 32), ("[1, 2] != []", 0), ("{'a': 1} != {}", 0)],
)
def test_a_literal_costs_its_constructor(expression: str, cost: int) -> None:
    assert compile_condition(expression).measure(bind()).cost == cost


def test_a_key_without_a_hash_equals_only_itself() -> None:
    """kube-apiserver accepts such maps, too: Go compares the pointers."""
    assert evaluate("{object.spec.hosts: 1} != {object.spec.hosts: 1} && {[1]: 2}.map(k, k) == [[1]]")


EXPRESSIONS = split_rows("""
    {'a': 1}.exists(k, v, v == 1) && [1, 2].all(i, v, v == i + 1) && [1].existsOne(i, v, v == 1)
    [1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6] && [1, 2].exists_one(x, x == 1)
    (object.spec.hosts + object.spec.hosts).all(host, host in ['a', 'b'])
    object.metadata.labels.all(key, key == 'app') && object.metadata.labels.exists(key, value, value == 'web')
    [[1, 2], [3]].map(row, row.map(x, x + 1)) == [[2, 3], [4]] && [1].map(x, [2].map(x, x)) == [[2]]
    object.spec.hosts.map(x, x) + ['c'] == ['a', 'b', 'c'] && object.spec.hosts == ['a', 'b']
    object.spec.hosts.exists(host, host.absent == 1 || host == 'b')
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_macros_iterate_over_lists_and_maps(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("object.spec.replicas.all(x, true)", "got 'types.Int', expected iterable type"),
        ("object.kind.all(x, true)", "got 'types.String', expected iterable type"),
        ("object.absent.all(x, true)", "no such key: absent"),
        ("object.spec.hosts.all(x, x.absent == 1)", "no such key: absent"),
    ],
)
def test_a_failed_iteration_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


def test_a_decided_macro_stops_iterating() -> None:
    def measure(first: int) -> int:
        condition = compile_condition("object.l.exists(x, x == 1)")
        return condition.measure(bind({"l": [first, *([1] * 100)]})).cost

    assert measure(1) < measure(0) < 50
