"""Tests of coloured text. test_terminal.py tests that untrusted text stays on one line."""

import pytest

from app.cli.styles import console, styled


def test_control_characters_are_escaped_unless_they_are_kept() -> None:
    assert styled("a\x1b[31m\nb").plain == r"a\x1b[31m\nb"
    assert styled("a\nb\tc", keep="\n").plain.splitlines()[0] == "a"
    assert str(styled("a", "bold red").style) == "bold red"


def test_the_console_neither_wraps_nor_highlights(capsys: pytest.CaptureFixture[str]) -> None:
    text = "word 123 " * 40
    console().print(styled(text))
    assert capsys.readouterr().out == f"{text}\n"
