"""Tests of ages and sizes with units."""

import pytest

from app.cli.crds_units import parse_age, parse_size


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("90s", 90), ("1W", 604_800)])
def test_ages_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("200MiB", 200 * 2**20), ("1kb", 1000), ("7", 7), ("3 GB", 3 * 10**9)])
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1d", "1.5h", "9 fortnights"])
def test_a_text_that_is_neither_age_nor_size_is_refused(text: str) -> None:
    for read in (parse_age, parse_size):
        with pytest.raises(ValueError, match="is not"):
            read(text)
