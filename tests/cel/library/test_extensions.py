import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    lists.range(3) == [0, 1, 2] && [3, 1].sort() == [1, 3] && [[1]].flatten() == [1] && [1, 1].distinct() == [1]
    ['aa', 'b'].sortBy(x, size(x)) == ['b', 'aa'] && [1, 2, 3].slice(1, 2) == [2]
    sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1], [1, 1])
    [1, 2].transformList(i, v, v * i) == [0, 2] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}
    {'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'} && {'a': [1]}.transformMap(k, v, v) == {'a': [1]}
    optional.of(1).hasValue() && optional.none().orValue(2) == 2 && [1][?5].orValue(2) == 2
    optional.of(2).optMap(x, x + 1).value() == 3 && {'a': 1}.?a.hasValue()
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_of_cel_gos_extensions(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k}) == {}", 'insert failed: key "1" already exists'),
    ],
)  # fmt: skip
def test_a_repeated_key_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause
