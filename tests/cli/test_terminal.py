"""Untrusted text in the output of commands: names and contents of objects, archives and scripts."""

import re
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from app.cli.crds import crds
from app.cli.styles import console, styled
from app.cli.terminal import write, write_error
from app.model.text import is_inert
from tests.crds.tarballs import build, small
from tests.model.test_text import HOSTILE

COMMANDS = Path(__file__).parents[2] / "app/cli"


CAPTURED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@CAPTURED
@given(HOSTILE)
def test_untrusted_text_stays_on_one_line(capsys: Any, text: str) -> None:
    write(f"name {text}")
    write_error(text)
    console().print(styled(text, "red"))
    for stream in capsys.readouterr():
        assert all(map(is_inert, stream.replace("\t", "").removesuffix("\n").splitlines()))
        assert stream.count("\n") == len(stream.splitlines())
    assert stream.count("\n") == 1


def test_no_command_writes_to_the_terminal_directly() -> None:
    direct = re.compile(r"sys\.std(out|err)\.(write|buffer)|\bText\((?!\))|typer\.(echo|secho)|\bprint\(")
    found = {
        f"{path.name}: {line.strip()}"
        for path in COMMANDS.glob("*.py")
        for line in path.read_text().splitlines()
        if direct.search(line) and path.name not in ("terminal.py", "styles.py")
    }
    # Exceptions: errors of standard output itself, which are escaped there; our version, printed without imports; and texts from `styled`.
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
