from datetime import timedelta
from typing import Any

import pytest

from fleethook.cel import CostError, EvaluationError
from fleethook.cel.evaluation import CURRENT, Evaluation, LimitReachedError
from fleethook.cel.values.operators import COMPARISONS, MAX_DEPTH, contains, is_equal
from fleethook.cel.values.values import NONE, GrowingList, GrowingMap, Optional, Uint
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    object.spec.hosts + ['c'] == ['a', 'b', 'c'] && object.kind + object.kind == 'PodPod' && [1] + [2] == [1, 2]
    object.spec.replicas + object.spec.replicas == 6 && 1 + 2 == 3 && 1.5 + 1.5 == 3.0
    b'a' + b'b' == b'ab' && 1u + 2u == 3u && type(1u + 2u) == uint
    timestamp('2020-01-01T00:00:00Z') + duration('1h') == timestamp('2020-01-01T01:00:00Z')
    duration('1h') + duration('1m') == duration('61m') && duration('1h') - duration('1m') == duration('59m')
    timestamp('2020-01-01T01:00:00Z') - timestamp('2020-01-01T00:00:00Z') == duration('1h')
    object.spec.replicas - 4 == -1 && 3u - 1u == 2u && 1.5 - 1.0 == 0.5 && -object.spec.replicas == -3
    object.spec.replicas * 2 == 6 && 2u * 3u == 6u && 1.5 * 2.0 == 3.0
    -7 / 2 == -3 && 7 / -2 == -3 && 7u / 2u == 3u && 1.0 / 4.0 == 0.25
    -7 % 2 == -1 && 7 % -2 == 1 && 7u % 2u == 1u
    1.0 / 0.0 > 1.7e308 && -1.0 / 0.0 < -1.7e308 && 1.0 / -0.0 < -1.7e308
""")
MAX = "9223372036854775807"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_operators_compute_like_cel_go(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        (f"{MAX} + object.spec.replicas == 0", "integer overflow"),
        (f"-{MAX} - object.spec.replicas == 0", "integer overflow"),
        (f"{MAX} * object.spec.replicas == 0", "integer overflow"),
        (f"(-{MAX} - 1) / (object.spec.replicas - 4) == 0", "integer overflow"),
        (f"-(-{MAX} - object.spec.replicas + 2) == 0", "integer overflow"),
        ("1u - uint(object.spec.replicas) == 0u", "unsigned integer overflow"),
        ("1 / (object.spec.replicas - 3) == 0", "division by zero"),
        ("1 % (object.spec.replicas - 3) == 0", "modulus by zero"),
        ("object.spec.ratio % object.spec.ratio == 0", "no such overload"),
        ("object.spec.replicas + object.spec.ratio == 0", "no such overload"),
        ("object.spec - object.spec == 0", "no such overload"),
        ("-object.kind == 0", "no such overload"),
    ],
)
def test_an_impossible_operation_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


def test_long_strings_count_as_work() -> None:
    document = {"text": "a" * 3_000_000}

    assert evaluate("object.text + object.text != ''", document)
    with pytest.raises(CostError):
        evaluate(" || ".join(["object.text + object.text == ''"] * 4), document)


@pytest.fixture(autouse=True)
def evaluation() -> Any:
    current = Evaluation(max_work=1_000)
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
