"""Tests of the text of a finding."""

import pytest

from fleethook.engines.overrider.schema.finding import Finding


@pytest.mark.parametrize(("pointer", "text"), [("/spec/x", "/spec/x: is wrong"), ("", "the workload: is wrong")])
def test_the_text_names_the_member_or_the_workload(pointer: str, text: str) -> None:
    assert str(Finding(pointer, "value", "is wrong")) == text
