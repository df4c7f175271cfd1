import pytest

from tests.dispatch.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    1 < 2.5 && 3u > 2 && 2.0 <= 2 && object.spec.replicas >= 2.5 && object.spec.ratio < 2 && 'a' < 'b'
    false < true && b'a' < b'b' && duration('1s') < duration('2s')
    timestamp('2020-01-01T00:00:00Z') < timestamp('2021-01-01T00:00:00Z')
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_numbers_of_different_types_compare_by_value(expression: str) -> None:
    assert evaluate(expression) is True
