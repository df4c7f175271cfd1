import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cel.library.standard import format_float, format_plain, parse_bool, parse_float, parse_int, parse_uint


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
