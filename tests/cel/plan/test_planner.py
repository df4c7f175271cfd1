import pytest

from fleethook.cel import EvaluationError, ExpressionError, compile_condition
from fleethook.cel.program import plan_expression
from tests.cel.evaluating import bind, evaluate


def count_nodes(expression: str) -> int:
    return plan_expression(expression).nodes


def test_a_plan_counts_the_nodes_of_the_expression() -> None:
    assert count_nodes("object.a") == 2
    assert count_nodes("object.a == 'x'") == 4
    assert count_nodes("object.a == ['x', 'y']") == 6


def test_each_comprehension_has_variables_of_its_own() -> None:
    one = plan_expression("[1].all(x, x > 0)")
    two = plan_expression("[1].all(x, [1].all(y, y > x))")
    pairs = plan_expression("[1].all(x, y, y > x)")

    assert two.slots - one.slots == 3
    assert pairs.slots == one.slots


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2, 3] == [1, 2, 3]",
        "{'a': 1} == {'a': 1}",
        "timestamp('2020-01-01T00:00:00Z') != timestamp('2021-01-01T00:00:00Z')",
        "1 in [1, 2]",
        "!(1 in [])",
    ],
)
def test_constant_parts_are_evaluated_once(expression: str) -> None:
    """Only the comparison remains: 1 for it, 1 for the negation; membership in constants is free."""
    assert evaluate(expression)
    assert compile_condition(expression).measure(bind()).cost <= 1


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("bool('maybe')", "type conversion error from 'string' to 'bool'"),
        ("true || int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("string(null) == 'a'", "no such overload: string(null_type)"),
        ("int(dyn([1])) == 1", "no such overload: int(list)"),
        ("object.a.find('(') == ''", "error parsing regexp: missing closing ): `(`"),
        ("type(timestamp(0)) == timestamp", "reference to undefined type: timestamp"),
    ],
)
def test_a_constant_part_that_fails_is_an_error_of_the_expression(expression: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_condition(expression)
    assert str(caught.value) == f"program instantiation failed: {problem}"


def test_a_member_of_a_conditional_is_the_member_of_the_branch() -> None:
    assert evaluate("(object.kind == 'Pod' ? object : oldObject).spec.replicas == 3")


@pytest.mark.parametrize("expression", ["!object.kind", "object.kind && true"])
def test_logical_operators_reject_other_types(expression: str) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate(expression)


def test_a_type_is_a_value() -> None:
    assert evaluate("type(object.kind) == string && type(1) != uint && type(null) == null_type && type(int) == type")
