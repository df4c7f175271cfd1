from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.formats.quantity import Quantity
from fleethook.model.formats.quantity_text import stored_quantity, stored_resource

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


@pytest.mark.parametrize(
    ("text", "plain", "listed"),
    [
        ("0.5", "500m", "500m"), ("1024Mi", "1Gi", "1Gi"), ("1000", "1k", "1k"), (" 1 ", "1", "1"),
        ("1n", "1n", "1m"), ("-1n", "-1n", "-1m"),
        # Upstream considers these canonical and keeps them.
        ("+5", "+5", "+5"), ("1.500", "1.500", "1.500"), ("1E3", "1E3", "1E3"),
    ],
)  # fmt: skip
def test_quantities_by_example(text: str, plain: str, listed: str) -> None:
    assert (stored_quantity(text), stored_resource(text)) == (plain, listed)


@pytest.mark.parametrize("text", ["", "x", "1.5.5", "1ki", "1e", "1e1.5", "Ei", "1" * 2000, "1e9999"])
def test_invalid_texts_are_errors(text: str) -> None:
    for function in (stored_quantity, stored_resource):
        with pytest.raises(ValueError, match="is not a quantity"):
            function(text)


@given(st.integers(-(10**15), 10**15), st.sampled_from(["n", "u", "m", "", "k", "Ki", "Mi", "e3"]))
def test_the_stored_text_is_stable_and_keeps_the_amount(number: int, suffix: str) -> None:
    text = stored_quantity(f"{number}{suffix}")
    assert stored_quantity(text) == text
    assert Quantity.parse(text) == Quantity.parse(f"{number}{suffix}")
