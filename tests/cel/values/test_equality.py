from datetime import timedelta
from typing import Any

import pytest

from fleethook.cel.evaluation import CURRENT, Evaluation, LimitReachedError
from fleethook.cel.values.equality import COMPARISONS, MAX_DEPTH, contains, is_equal
from fleethook.cel.values.values import NONE, GrowingList, GrowingMap, Optional, Uint


@pytest.fixture(autouse=True)
def evaluation() -> Any:
    current = Evaluation(None, max_work=1_000)
    token = CURRENT.set(current)
    yield current
    CURRENT.reset(token)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (Uint(1), 1),
        ([1, {"a": None}], GrowingList([1.0, {"a": None}])),
        ({"a": [1]}, GrowingMap({"a": [1]})),
        (Optional(1), Optional(1.0)),
        (NONE, NONE),
        (timedelta(1), timedelta(1)),
    ],
)
def test_equal_values(left: object, right: object) -> None:
    assert is_equal(left, right)
    assert is_equal(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        ("1", 1),
        ("a", b"a"),
        ([], {}),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (NONE, Optional(None)),
        (None, 0),
    ],
)
def test_unequal_values(left: object, right: object) -> None:
    assert not is_equal(left, right)
    assert not is_equal(right, left)


def nest(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_deep_values_are_rejected() -> None:
    assert is_equal(nest(MAX_DEPTH), nest(MAX_DEPTH))
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        is_equal(nest(MAX_DEPTH + 1), nest(MAX_DEPTH + 1))


def test_compared_elements_count_as_work(evaluation: Evaluation) -> None:
    is_equal([1] * 300, [1] * 300)
    is_equal("a" * 300, "a" * 300)
    contains([2] * 300, 1)

    assert evaluation.work == 300 + 3 + 300
    with pytest.raises(LimitReachedError):
        is_equal([1] * 400, [1] * 400)


def test_membership_in_lists_and_maps() -> None:
    assert contains([1, 2], 1.0)
    assert not contains([1, 2], "1")
    assert contains({"a": 1}, "a")
    assert not contains({"a": 1}, ["a"])
    with pytest.raises(TypeError, match="no such overload"):
        contains("abc", "a")


def test_order_of_numbers_and_of_equal_types() -> None:
    less = COMPARISONS["_<_"]

    assert less(1, 1.5)
    assert less(Uint(1), 2)
    assert less("a", "b")
    assert less(False, True)
    for left, right in ((1, "a"), ([1], [2]), (True, 2)):
        with pytest.raises(TypeError, match="no such overload"):
            less(left, right)
