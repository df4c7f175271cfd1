"""Text of other people in the output of commands."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from app.cli.crds import crds
from app.cli.interpret_output import Output, Verdict, print_verdicts
from app.cli.json_output import write_json
from app.cli.styles import console, styled
from app.cli.terminal import write, write_document, write_error
from app.cli.yaml_output import yaml_text
from app.crds.apply.yaml_text import dump
from app.model.text import is_inert
from tests.crds.tarballs import build, small
from tests.model.test_text import HOSTILE

COMMANDS = Path(__file__).parents[2] / "app/cli"
CAPTURED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@CAPTURED
@given(HOSTILE)
def test_a_line_of_somebody_else_stays_one_line(capsys: Any, text: str) -> None:
    write(f"name {text}")
    write_error(text)
    console().print(styled(text, "red"))
    for stream in capsys.readouterr():
        assert all(map(is_inert, stream.replace("\t", "").removesuffix("\n").splitlines()))
        assert stream.count("\n") == len(stream.splitlines())
    assert stream.count("\n") == 1


@CAPTURED
@given(HOSTILE)
def test_json_and_yaml_keep_the_value_and_show_it(capsys: Any, text: str) -> None:
    write_json({text: text})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {text: text}
    assert is_inert(printed.replace("\n", ""))
    if any("\ud800" <= one <= "\udfff" for one in text):
        return
    for document in (yaml_text({text: text}), dump([{text: text}])):
        write_document(document)
        printed = capsys.readouterr().out
        assert yaml.safe_load(printed) == {text: text}
        assert is_inert(printed.replace("\n", ""))


def test_yaml_that_nothing_acts_in_stays_readable() -> None:
    assert yaml_text({"city": "杭州"}) == "city: 杭州\n"


def test_junit_is_xml_whatever_a_fixture_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("a\x1b.yaml", 1, "n\x00\u202e", "Retain", "lua", 0.0, "boom\x08\nagain", [])
    print_verdicts([verdict], Output.JUNIT)
    suite = ET.fromstring(capsys.readouterr().out)
    assert suite[0].attrib["name"] == "n\\x00\\u202e"


def test_no_command_writes_past_this() -> None:
    direct = re.compile(r"sys\.std(out|err)\.(write|buffer)|\bText\((?!\))|typer\.(echo|secho)|\bprint\(")
    found = {
        f"{path.name}: {line.strip()}"
        for path in COMMANDS.glob("*.py")
        for line in path.read_text().splitlines()
        if direct.search(line) and path.name not in ("terminal.py", "styles.py")
    }
    # Failures of standard output itself, escaped there; our own version, before anything heavy is imported; rich consoles print what `styled` returns.
    assert {one for one in found if ".print(" not in one} == {
        '__init__.py: sys.stdout.write(f"fleethook {__version__}\\n")',
        'standard_output.py: sys.stderr.write(f"fleethook: {escape(message)}\\n")',
    }
    assert all("terminal.print(" in one for one in found if ".print(" in one)


def test_a_hostile_archive_is_described_in_one_line(tmp_path: Path) -> None:
    tarball = tmp_path / "crds.tar.gz"
    for name in ("crds/bases/\u202elmay.yaml", "crds/bases/a\u2028fleethook: whole.yaml", "crds/\x9b2J"):
        tarball.write_bytes(build({**small(), name: b"[", f"{name}/": b"x"}))
        result = CliRunner().invoke(crds, ["verify", str(tarball)])
        assert result.exit_code == 24
        assert result.stderr.count("\n") == 1
        assert is_inert(result.stderr[:-1])
