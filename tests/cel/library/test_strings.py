import math
from typing import Any

import pytest

from fleethook.cel.evaluation import run_without_request
from fleethook.cel.library.strings import Clause, format_list, format_value, measure_weight, parse_format
from fleethook.cel.values.times import Duration, Timestamp
from fleethook.cel.values.values import CelType, Optional, Uint
from tests.cel.evaluating import evaluate, split_rows


@pytest.mark.parametrize(
    ("value", "weight"),
    [(1, 1), ("a" * 25, 1 + 2), ([1, [2]], 4), ({"a" * 10: [b"b" * 30]}, 1 + 2 + 1 + 1 + 3), (None, 1)],
)
def test_the_weight_counts_values_and_tens_of_characters(value: object, weight: int) -> None:
    assert measure_weight(value) == weight


def test_deep_values_are_rejected() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        measure_weight(value)


NESTED = {"a": [Uint(1), 1.5, b"x", None, True, Timestamp(0), Duration(10**9), CelType("int")]}


def render(text: str, *arguments: Any) -> str:
    return str(run_without_request(lambda: format_list(text, arguments)))


@pytest.mark.parametrize(
    ("text", "argument", "expected"),
    [
        ("%f", 1e23, "99,999,999,999,999,991,611,392.000000"),
        ("%.2f", 2.675, "2.67"),
        ("%.0f", 2.5, "2"),
        ("%f", -math.inf, "-\u221e"),
        ("%f", "NaN", "NaN"),
        ("%f", -0.0, "0.000000"),
        ("%e", -12345.678, "-1.234568\u00d710\u2070\u2074"),
        ("%e", 1e-10, "1.000000\u00d710\u207b\u00b9\u2070"),
        ("%.20e", 1.0, "       1.000000\u00d710\u2070\u2070"),
        ("%e", math.inf, "     \u221e"),
        ("%x", -255, "-ff"),
        ("%X", "a\u00e9", "61C3A9"),
        ("%x", b"\xff", "ff"),
        ("%o", Uint(8), "10"),
        ("%b", True, "1"),
        ("%b", -5, "-101"),
        ("%.3s", "abcdef", "abcdef"),
        ("100%% %d", 5, "100% 5"),
        ("%s", 1e21, "1e+21"),
        (
            "%s",
            NESTED,
            '{"a":[1, 1.500000, b"x", null, true, timestamp("1970-01-01T00:00:00Z"), duration("1s"), int]}',
        ),
        ("%s", {"b": 1, "a": "x\n\u200b"}, '{"a":"x\\n\\u200b", "b":1}'),
    ],
)
def test_values_are_written_as_in_cel_go(text: str, argument: object, expected: str) -> None:
    assert render(text, argument) == expected


@pytest.mark.parametrize(
    ("text", "argument", "problem"),
    [
        ("%d", 1.5, "decimal clause can only be used on integers, was given double"),
        ("%f", "1", "fixed-point clause can only be used on doubles, was given string"),
        ("%s", b"\xff", 'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'),
        ("%s", {1.5: 2}, "no formatting function for map key of type double"),
        ("%s", [Optional(1)], "no formatting function for optional_type"),
    ],
)
def test_other_values_are_errors(text: str, argument: object, problem: str) -> None:
    with pytest.raises(ValueError, match="formatting") as caught:
        render(text, argument)
    assert str(caught.value) == f"error during formatting: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("%", "unexpected end of string"),
        ("%.", "could not find end of precision specifier"),
        ("%.s", "invalid syntax"),
        ("%5d", 'clause "5"'),
        ("%d %d", "index 1 out of range"),
        ("%.99999999f", "the precision exceeds"),
    ],
)
def test_an_invalid_format_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(parse_format(text, 1))


def test_a_format_has_text_and_clauses() -> None:
    assert list(parse_format("a%.2f", 1)) == [Clause("a"), Clause("", "f", 2, 0)]
    assert format_value([None, "a"]) == '[null, "a"]'


EXPRESSIONS = split_rows("""
    'abc'.charAt(1) == 'b' && 'Abc'.lowerAscii() == 'abc' && 'abc'.upperAscii() == 'ABC' && ' a '.trim() == 'a'
    'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'
    ['a', 'b'].join() == 'ab' && 'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'
    'ab'.replace('', '-') == '-a-b-' && 'abc'.substring(1) == 'bc' && 'abc'.substring(1, 2) == 'b'
    'abcabc'.indexOf('c') == 2 && 'abcabc'.indexOf('c', 3) == 5 && 'abc'.indexOf('') == 0 && 'abc'.indexOf('x') == -1
    'abcabc'.lastIndexOf('c') == 5 && 'abcabc'.lastIndexOf('c', 4) == 2 && 'abc'.lastIndexOf('c', 9) == -1
    '%s has %d'.format(['a', 1]) == 'a has 1' && strings.quote('a') == '"a"'
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_of_strings(expression: str) -> None:
    assert evaluate(expression) is True
