"""Untrusted text in the output of commands: names and contents of objects, archives and scripts."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fleethook.cli.output.terminal import concatenate, styled, write, write_error, write_styled
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
        if direct.search(line) and path.name != "terminal.py"
    }
    # An exception: errors of standard output itself, which are escaped there.
    assert found == {'standard_output.py: sys.stderr.write(f"fleethook: {escape(message)}\\n")'}


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


def test_lines_of_a_text_are_kept_only_if_they_are_intended() -> None:
    assert (styled("a\nb"), styled("a\nb", keep="\n")) == ("a\\nb", "a\nb")


def test_a_hostile_archive_is_described_in_one_line(tmp_path: Path) -> None:
    tarball = tmp_path / "crds.tar.gz"
    for name in ("crds/bases/\u202elmay.yaml", "crds/bases/a\u2028fleethook: whole.yaml", "crds/\x9b2J"):
        tarball.write_bytes(build({**small(), name: b"[", f"{name}/": b"x"}))
        result = invoke(["crds", "verify", str(tarball)])
        assert result.exit_code == 24
        assert result.stderr.count("\n") == 1
        assert is_inert(result.stderr[:-1])
