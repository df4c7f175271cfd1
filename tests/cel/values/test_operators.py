from typing import Any

import pytest

from fleethook.cel.cost_and_length_limits import CURRENT, Evaluation, LimitReachedError
from fleethook.cel.program import CostError
from fleethook.cel.values.operators import MAX_DEPTH, contains, is_equal
from tests.cel.evaluating import evaluate


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
