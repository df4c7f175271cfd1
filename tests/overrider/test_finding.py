"""Tests of a finding as entry points report it."""

import pytest

from app.overrider.finding import Finding


@pytest.mark.parametrize(("code", "level"), [("invalid", "error"), ("unused-entry", "warning")])
def test_the_code_decides_the_level(code: str, level: str) -> None:
    assert Finding(code, "entries", "is wrong").level == level


def test_the_text_begins_with_the_path() -> None:
    assert Finding("invalid", "entries[0].pools", "is wrong").text == "entries[0].pools: is wrong"
    assert Finding("not-checked", "", "no NodePool is known").text == "no NodePool is known"


def test_a_cause_has_the_reason_of_its_code() -> None:
    cause = Finding("duplicate", "subject.name", "is taken").cause()
    assert (cause.field, cause.message, cause.reason) == ("subject.name", "is taken", "FieldValueDuplicate")
