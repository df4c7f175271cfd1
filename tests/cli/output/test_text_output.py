"""Untrusted text in the output of commands: names and contents of objects, archives and scripts."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fleethook.cli.output.findings_output import FindingRow
from fleethook.cli.output.text_output import (
    concatenate,
    show_download,
    show_progress,
    styled,
    write,
    write_error,
    write_json,
    write_styled,
)
from fleethook.model.formats.text import is_inert
from tests.cli.commands import invoke
from tests.engines.crds.tarballs import build, small
from tests.model.formats.test_text import HOSTILE

PACKAGE = Path(__file__).parents[3] / "app/fleethook"
CAPTURED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@CAPTURED
@given(HOSTILE)
def test_untrusted_text_stays_on_one_line(capsys: Any, text: str) -> None:
    write(f"name {text}")
    write_error(text)
    write_styled(styled(text, "red"))
    for stream in capsys.readouterr():
        assert all(map(is_inert, stream.replace("\t", "").removesuffix("\n").splitlines()))
        assert stream.count("\n") == len(stream.splitlines())
    assert stream.count("\n") == 1


def test_no_command_writes_to_the_terminal_directly() -> None:
    direct = re.compile(r"sys\.std(out|err)\.(write|buffer)|\bStyled\(|\bprint\(")
    found = {
        f"{path.name}: {line.strip()}"
        for folder in ("cli", "engines/*/commands")
        for path in PACKAGE.glob(f"{folder}/**/*.py")
        for line in path.read_text().splitlines()
        if direct.search(line) and path.name != "text_output.py"
    }
    assert found == set()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "a\\x1b[31m bc"),
        ({"FORCE_COLOR": "1"}, "\x1b[1;31ma\\x1b[31m\x1b[0m b\x1b[36mc\x1b[0m"),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "a\\x1b[31m bc"),
    ],
)
def test_text_is_coloured_and_its_own_codes_are_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    write_styled(styled("a\x1b[31m", "bold red"), concatenate(styled("b"), styled("c", "cyan")))
    assert capsys.readouterr().out == f"{expected}\n"


def test_a_hostile_archive_is_described_in_one_line(tmp_path: Path) -> None:
    tarball = tmp_path / "crds.tar.gz"
    for name in ("crds/bases/\u202elmay.yaml", "crds/bases/a\u2028fleethook: whole.yaml", "crds/\x9b2J"):
        tarball.write_bytes(build({**small(), name: b"[", f"{name}/": b"x"}))
        result = invoke(["crds", "verify", str(tarball)])
        assert result.exit_code == 24
        assert result.stderr.count("\n") == 1
        assert is_inert(result.stderr[:-1])


"""Parts of a file after which the display changes."""


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def show_some(stream: io.StringIO | None = None) -> None:
    with contextlib.redirect_stderr(stream or sys.stderr):
        with show_progress() as show:
            show("0/2 Reading nodepools.apps.openyurt.io")
        with show_download("crds\x1b[31m") as report:
            report(1 << 20, 2 << 20)
            report(3 << 19, None)


def test_a_terminal_shows_progress_in_a_line_that_vanishes(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    show_some(terminal)
    shown = terminal.getvalue().split("\r")
    texts = ("0/2 Reading nodepools.apps.openyurt.io", "", " 50% 1.0 MiB crds\\x1b[31m", "1.5 MiB crds\\x1b[31m", "")
    assert shown == ["", *(f"{one}\x1b[K" for one in texts)]
    monkeypatch.setenv("COLUMNS", "20")
    show_some(narrow := Terminal())
    assert max(len(one.removesuffix("\x1b[K")) for one in narrow.getvalue().split("\r")) == 19


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_some()
    assert capsys.readouterr().err == ""


@CAPTURED
@given(HOSTILE)
def test_json_keeps_and_escapes_untrusted_values(capsys: Any, text: str) -> None:
    write_json({text: text})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {text: text}
    assert is_inert(printed.replace("\n", ""))


def test_structs_and_unknown_types_are_encoded(capsys: pytest.CaptureFixture[str]) -> None:
    write_json([FindingRow("error", "c", "", "K", "n", "o", "", "f", "t", "p"), Path("x")], indent=None)
    row = {"level": "error", "code": "c", "cluster": "", "kind": "K", "namespace": "n", "name": "o"}
    row |= {"webhook": "", "field": "f", "text": "t", "place": "p"}
    assert json.loads(capsys.readouterr().out) == [row, "x"]
