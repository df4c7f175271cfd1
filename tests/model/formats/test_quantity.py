from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.formats.quantity import Quantity, stored_quantity, stored_resource

NUMBERS = st.from_regex(r"\A[+-]?[0-9]{1,9}(\.[0-9]{0,9})?\Z")
SUFFIXES = st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2", "e0"])
QUANTITIES = st.builds(lambda number, suffix: number + suffix, NUMBERS, SUFFIXES)


@pytest.mark.parametrize(
    "text", ["", ".", "1.5.5", "1ki", "1K", "1kb", "Gi", "1e", "1e1.5", "1 Gi", " 1", "--1", "1Gim", "٣", "0x1"]
)
def test_invalid_quantities_are_quoted_in_errors(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        Quantity.parse(text)
    assert repr(text) in str(caught.value)


def test_long_texts_are_errors_that_name_the_limit() -> None:
    assert str(Quantity.parse("0." + "1" * 1022)) == "111111112n"
    for text in ("0." + "1" * 7_000_000, "1" * 7_000_000, "x" * 7_000_000, 10**1024):
        with pytest.raises(ValueError, match=r"characters, the limit is 1024$") as caught:
            Quantity.parse(text)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("9" * 300 + "e-299", "10"), ("." + "0" * 600 + "1e600", "100e-3"), ("1e999999999", "9223372036854775807"),
        ("1e-999999999", "1e-9"), ("0e999999999", "0"), ("." + "0" * 100 + "1Ei", "1n"), ("0" * 1000 + "5", "5"),
    ],
)  # fmt: skip
def test_exponents_and_digits_are_limited_together(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


def test_the_constructor_takes_the_text_that_a_rule_reads() -> None:
    assert Quantity("2Gi") > Quantity("500m") == Quantity(Fraction(1, 2))
    assert (repr(Quantity("1Gi")), str(Quantity("1024Mi"))) == ("Quantity('1Gi')", "1Gi")
    with pytest.raises(ValueError, match="'1/2' is not a quantity"):
        Quantity("1/2")
    with pytest.raises(TypeError, match="not supported between instances of 'Quantity' and 'str'"):
        _ = Quantity("2Gi") > "1Gi"


def test_integer_values_round_away_from_zero() -> None:
    assert (int(Quantity.parse("1500m")), int(Quantity.parse("-1500m"))) == (2, -2)


def test_sums_keep_the_format_of_the_first_nonzero_amount() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1Gi")) == "2Gi"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("1Gi") - Quantity.parse("1Gi")) == "0"


@given(QUANTITIES)
def test_canonical_text_parses_to_the_same_amount(text: str) -> None:
    quantity = Quantity.parse(text)
    assert Quantity.parse(str(quantity)) == quantity
    assert str(Quantity.parse(str(quantity))) == str(quantity)


@given(QUANTITIES, QUANTITIES)
def test_arithmetic_and_order_are_exact(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (a + b).value == Fraction(a.value) + Fraction(b.value)
    assert (a - b) == -(b - a)
    assert (a < b) is (a.value < b.value)
    assert ((a == b) is False) or hash(a) == hash(b)


ROWS = [line.split("\t") for line in (Path(__file__).parents[1] / "quantities.tsv").read_text().splitlines()]


def stored(function: Callable[[str], str], text: str) -> str:
    try:
        return function(text)
    except ValueError:
        return ""


def test_the_table_has_thousands_of_quantities_and_invalid_texts() -> None:
    assert len(ROWS) > 2500
    assert sum(not plain for _, plain, _ in ROWS) > 200


def test_stored_quantities_equal_those_of_apimachinery() -> None:
    assert [[text, stored(stored_quantity, text), stored(stored_resource, text)] for text, _, _ in ROWS] == ROWS


@given(st.integers(-(10**15), 10**15), st.sampled_from(["n", "u", "m", "", "k", "Ki", "Mi", "e3"]))
def test_the_stored_text_is_stable_and_keeps_the_amount(number: int, suffix: str) -> None:
    text = stored_quantity(f"{number}{suffix}")
    assert stored_quantity(text) == text
    assert Quantity.parse(text) == Quantity.parse(f"{number}{suffix}")
