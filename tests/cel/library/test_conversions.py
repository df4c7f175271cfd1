import pytest

from fleethook.cel.library.standard import convert_to_string, format_duration
from fleethook.cel.values.times import Duration
from fleethook.cel.values.values import CelType
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    int(duration('1s')) == 1000000000 && int(timestamp('1970-01-01T00:00:01.9Z')) == 1
    string(timestamp('2023-01-01T00:00:00+01:00')) == '2023-01-01T00:00:00+01:00' && string(duration('1m1.5s')) == '61.5s'
    string(1e6) == '1e+06' && string(true) == 'true' && string(2u) == '2' && double('0x1p-2') == 0.25
    int(dyn(1.9)) == 1 && uint(dyn(3.9)) == 3u && bytes('a') == b'a' && type(dyn(1u)) == uint
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_conversions_are_those_of_cel_go(expression: str) -> None:
    assert evaluate(expression) is True


def test_a_duration_has_the_shortest_text() -> None:
    assert format_duration(Duration(-1)) == "-0.000000001s"
    assert format_duration(Duration(2**63 - 1)) == "9223372036.854776s"
    assert convert_to_string(CelType("int")) == "int"
