import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cel import EvaluationError
from fleethook.cel.library.standard import (
    convert_to_string,
    format_duration,
    format_float,
    format_plain,
    parse_bool,
    parse_float,
    parse_int,
    parse_uint,
)
from fleethook.cel.values.times import Duration
from fleethook.cel.values.values import CelType
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


CONVERSIONS = split_rows("""
    int(duration('1s')) == 1000000000 && int(timestamp('1970-01-01T00:00:01.9Z')) == 1
    string(timestamp('2023-01-01T00:00:00+01:00')) == '2023-01-01T00:00:00+01:00' && string(duration('1m1.5s')) == '61.5s'
    string(1e6) == '1e+06' && string(true) == 'true' && string(2u) == '2' && double('0x1p-2') == 0.25
    int(dyn(1.9)) == 1 && uint(dyn(3.9)) == 3u && bytes('a') == b'a' && type(dyn(1u)) == uint
""")


@pytest.mark.parametrize("expression", CONVERSIONS)
def test_conversions_are_those_of_cel_go(expression: str) -> None:
    assert evaluate(expression) is True


def test_a_duration_has_the_shortest_text() -> None:
    assert format_duration(Duration(-1)) == "-0.000000001s"
    assert format_duration(Duration(2**63 - 1)) == "9223372036.854776s"
    assert convert_to_string(CelType("int")) == "int"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1_000", 1000.0),
        ("0x1p-2", 0.25),
        ("1e1_0", 1e10),
        ("0x_1p1", 2.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+.5e3", 500.0),
        ("Inf", math.inf),
        ("-infinity", -math.inf),
    ],
)
def test_doubles_are_read_as_in_go(text: str, value: float) -> None:
    assert parse_float(text) == value


@pytest.mark.parametrize("text", ["", "1__0", "_1", "1_", "1e", "0x1", "1e400", " 1", "1f", "infin", "1_e5"])
def test_other_doubles_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="to 'double'"):
        parse_float(text)


def test_integers_have_64_bits() -> None:
    assert parse_int("-9223372036854775808") == -(2**63)
    assert parse_uint("18446744073709551615") == 2**64 - 1
    for text in ("9223372036854775808", "1_0", "", "0x1", "1.0", "9" * 5000):
        with pytest.raises(ValueError, match="to 'int'"):
            parse_int(text)
    for text in ("18446744073709551616", "-1", "+1"):
        with pytest.raises(ValueError, match="to 'uint'"):
            parse_uint(text)


def test_bools_have_six_texts_each() -> None:
    assert parse_bool("T")
    assert not parse_bool("FALSE")
    with pytest.raises(ValueError, match="to 'bool'"):
        parse_bool("yes")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e20, "1e+20"),
        (123456789.0, "1.23456789e+08"),
        (123456.0, "123456"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (-0.0, "-0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (math.nan, "NaN"),
        (-math.inf, "-Inf"),
    ],
)
def test_doubles_are_written_as_in_go(value: float, text: str) -> None:
    assert format_float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_as_the_same(value: float) -> None:
    assert parse_float(format_float(value)) == value
    assert float(format_plain(value)) == value
