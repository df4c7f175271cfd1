import pytest

from fleethook.cel import EvaluationError, compile_condition
from tests.cel.evaluating import bind, evaluate, split_rows

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
