"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    [1, 2, 3].isSorted() && ['a', 'b', 'b'].isSorted() && ![2.0, 1.0].isSorted() && [1].isSorted()
    [1, 3].sum() == 4 && [1.0, 3.0].sum() == 4.0 && [1u, 2u].sum() + 1u == 4u
    [duration('1m'), duration('1s')].sum() == duration('61s') && object.spec.absent.sum() == 0 || true
    [1, 3].min() == 1 && ['b', 'a'].max() == 'b' && [timestamp('2020-01-01T00:00:00Z')].max().getFullYear() == 2020
    [1, 2, 2, 3].indexOf(2) == 1 && ['a', 'b', 'b'].lastIndexOf('b') == 2 && [1.0].indexOf(1.1) == -1
    [[1], [2]].indexOf([2]) == 1 && [{'a': 1}].indexOf({'a': 1}) == 0 && [true].indexOf(true) == 0
    object.spec.hosts.indexOf('b') == 1 && object.spec.hosts.isSorted() && object.metadata.name.indexOf('b') == 2
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_of_lists(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("[1].filter(x, x > 1).min() == 1", "min called on empty list"),
        ("[9223372036854775807, 1].sum() == 0", "integer overflow"),
        ("object.spec.hosts.sum() == 1 && ([dyn(1), dyn('a')] == object || dyn([dyn(1), dyn('a')]).max() == 1)", "no such overload"),
        ("dyn([dyn(1), dyn('a')]).max() == 1", "no such overload"),
        ("'abc'.indexOf('a', -1) == 0", "index out of range: -1"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_errors(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


EXTENSIONS = split_rows("""
    lists.range(3) == [0, 1, 2] && [3, 1].sort() == [1, 3] && [[1]].flatten() == [1] && [1, 1].distinct() == [1]
    ['aa', 'b'].sortBy(x, size(x)) == ['b', 'aa'] && [1, 2, 3].slice(1, 2) == [2]
    sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1], [1, 1])
    [1, 2].transformList(i, v, v * i) == [0, 2] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}
    {'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'} && {'a': [1]}.transformMap(k, v, v) == {'a': [1]}
    optional.of(1).hasValue() && optional.none().orValue(2) == 2 && [1][?5].orValue(2) == 2
    optional.of(2).optMap(x, x + 1).value() == 3 && {'a': 1}.?a.hasValue()
""")


@pytest.mark.parametrize("expression", EXTENSIONS)
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
