import pytest

from fleethook.cel import CostError, EvaluationError
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
