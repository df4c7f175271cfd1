"""The operations of short rules have the results of Python, or none."""

import types
from typing import Any

import pytest

from fleethook.admission.members import view
from fleethook.admission.step_budget import BUDGET, Budget, NotShortError, describe, is_constant, number, scalar


@pytest.fixture
def budget() -> Budget:
    made = Budget()
    made.left = BUDGET
    return made


def test_each_value_spends_units(budget: Budget) -> None:
    assert list(budget.each("abc", 10)) == ["a", "b", "c"]
    assert budget.left == BUDGET - 30
    with pytest.raises(NotShortError):
        list(budget.each(range(10**12), 10))


@pytest.mark.parametrize(
    ("value", "values", "found"),
    [
        ("b", "abc", True),
        ("b", ["a"], False),
        ("b", view({"b": 1}), True),
        ("b", types.MappingProxyType({"a": 1}), False),
        ("b", {"b"}, True),
        (1, (1, 2), True),
        ("b", {"b": 1}.keys(), True),
    ],
)
def test_membership_is_that_of_python(budget: Budget, value: Any, values: Any, *, found: bool) -> None:
    assert budget.contains(value, values) == found
    assert budget.left <= BUDGET


@pytest.mark.parametrize("values", [iter("a"), {"a": 1}.values(), range(3)])
def test_membership_of_other_values_is_unknown(budget: Budget, values: Any) -> None:
    with pytest.raises(NotShortError):
        budget.contains(1, values)


def test_texts_are_joined_up_to_a_length(budget: Budget) -> None:
    assert budget.join(", ", ("a", "b")) == "a, b"
    with pytest.raises(NotShortError):
        budget.join("", ["a" * 999] * 17)


@pytest.mark.parametrize("value", [[], {}, (), {"a"}, "a" * 40_000])
def test_values_without_a_small_size_are_not_compared(value: Any) -> None:
    with pytest.raises(NotShortError):
        scalar(value)


@pytest.mark.parametrize("value", ["a" * 1_001, 2**64, [], ("a",)])
def test_long_values_become_no_part_of_a_text(value: Any) -> None:
    with pytest.raises(NotShortError):
        describe(value)


def test_operands_are_small_numbers() -> None:
    assert (number(3), number(1.5), describe(None), scalar(None)) == (3, 1.5, None, None)
    with pytest.raises(NotShortError):
        number("a")


@pytest.mark.parametrize(
    ("value", "known"),
    [("a", True), (("a", ("b",)), True), ((("a", ("b",)),), False), ([], False), (2**64, False), ("a" * 1_001, False)],
)
def test_constants_are_small_and_never_change(value: Any, *, known: bool) -> None:
    assert is_constant(value) == known
