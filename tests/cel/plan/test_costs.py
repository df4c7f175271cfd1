"""tests/conformance/test_cel.py compares costs with kube-apiserver's; this module tests the rules by themselves."""

import pytest

from fleethook.cel.evaluation import CURRENT, Evaluation
from fleethook.cel.library.network import ADDRESS_FUNCTIONS
from fleethook.cel.plan.costs import find_call_cost, measure_size
from fleethook.cel.values.values import NONE, Optional

ip = next(function.code for function in ADDRESS_FUNCTIONS if (function.name, function.types) == ("ip", ("string",)))


@pytest.mark.parametrize(
    ("value", "size"),
    [("abc", 3), (b"ab", 2), ([1, 2], 2), ({"a": 1}, 1), (7, 1), (None, 1), (ip("1.2.3.4"), 4), (ip("::1"), 16)],
)
def test_the_size_of_a_value(value: object, size: int) -> None:
    assert measure_size(value) == size


def charge(function: str, overload: str, *arguments: object) -> int:
    cost = find_call_cost(function, [overload])
    assert cost.by_arguments is not None
    return cost.by_arguments(arguments)


@pytest.mark.parametrize(
    ("left", "right", "cost"),
    [("a" * 100, "a" * 11, 2), ([1] * 30, [1] * 40, 3), (1, 2, 1), (Optional("a" * 50), "a" * 90, 5), (NONE, "a", 1)],
)
def test_a_comparison_costs_a_tenth_of_the_smaller_operand(left: object, right: object, cost: int) -> None:
    assert charge("_==_", "equals", left, right) == charge("_!=_", "not_equals", left, right) == cost


def test_equality_of_kubernetes_types_costs_one() -> None:
    address = ip("::1")

    assert charge("_==_", "equals", address, address) == 1
    assert charge("_!=_", "not_equals", address, address) == 2


@pytest.mark.parametrize(
    ("function", "overload", "arguments", "cost"),
    [
        ("lowerAscii", "", ("a" * 25,), 3),
        ("replace", "", ("a" * 25, "b", "c"), 5),
        ("contains", "contains_string", ("a" * 25, "b" * 11), 3 * 2),
        ("matches", "matches_string", ("a" * 19, "b" * 8), 2 * 2),
        ("_+_", "add_string", ("a" * 25, "b" * 26), 6),
        ("distinct", "list_distinct", ([1] * 3,), 18 + 1 + 10),
        ("distinct", "list_distinct", (["a"] * 10,), 210 + 1 + 10),
        ("lists.range", "lists_range", (5,), 5 + 1 + 10),
        ("slice", "list_slice", ([1] * 9, 2, 5), 3 + 1 + 10),
        ("slice", "list_slice", ([1] * 9, 5, 2), 1 + 1 + 10),
        ("sets.equivalent", "list_sets_equivalent_list", ([1] * 3, [1] * 4), 1 + 2 * 12),
    ],
)
def test_the_cost_of_a_call_depends_on_its_arguments(
    function: str, overload: str, arguments: tuple[object, ...], cost: int
) -> None:
    assert charge(function, overload, *arguments) == cost


def test_traversing_a_list_counts_as_work() -> None:
    evaluation = Evaluation()
    token = CURRENT.set(evaluation)
    try:
        assert charge("sum", "", [1, [2, 3], "a" * 20]) == 3 + 2
    finally:
        CURRENT.reset(token)
    assert evaluation.work == 6


@pytest.mark.parametrize("overloads", [[], ["contains_string", "other"]])
def test_a_call_without_a_definite_overload_costs_one(overloads: list[str]) -> None:
    assert find_call_cost("contains", overloads).fixed == 1
    assert find_call_cost("contains", overloads).by_arguments is None


def test_the_cost_of_join_depends_on_its_result() -> None:
    joined = find_call_cost("join", []).by_result
    assert joined is not None
    assert joined("a" * 25) == 5
