import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    string(1) == '1' && string(true) == 'true' && string(object.spec.replicas) == '3' && string(b'a') == 'a'
    string(1.5) == '1.5' && string(duration('90s')) == '90s' && string(7u) == '7'
    'a'.contains('a') && 'ab'.startsWith('a') && 'ab'.endsWith('b') && size('é') == 1
    size(b'abc') == 3 && object.spec.hosts.size() == 2 && size({'a': 1}) == 1
    int('7') == 7 && int(7.9) == 7 && int(-7.9) == -7 && int(7u) == 7 && int(timestamp('1970-01-01T00:01:00Z')) == 60
    uint('7') == 7u && uint(7.9) == 7u && uint(7) == 7u && double('1.5') == 1.5 && double(2) == 2.0 && double(2u) == 2.0
    bool('t') && bool('TRUE') && !bool('0') && bytes('é') == b'\\303\\251' && dyn(1) == 1
    timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020 && duration('1h').getHours() == 1
    timestamp('2020-03-01T23:30:00Z').getHours('+01:00') == 0 && timestamp('2020-03-01T00:00:00Z').getDayOfYear() == 60
    duration('-90s').getMinutes() == -1 && duration('1500ms').getMilliseconds() == 1500 && duration('1h').getSeconds() == 3600
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_standard_functions_follow_cel_go(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("int(object.spec.ratio * 1e30) == 0", "integer overflow"),
        ("uint(0 - object.spec.replicas) == 0u", "unsigned integer overflow"),
        ("bool(object.kind)", "type conversion error from 'string' to 'bool'"),
        ("string(b'\\377' + bytes(object.kind)) == ''", "invalid UTF-8 in bytes, cannot convert to string"),
    ],
)
def test_an_impossible_conversion_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause
