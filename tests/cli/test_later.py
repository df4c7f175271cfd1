"""Commands that are imported when they are asked for: what is said of them before is what they say themselves."""

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from app.cli import app
from app.cli.crds import crds
from app.cli.later import Later
from tests.waiting import NET

LATER = {
    name: command
    for of in (app, crds)
    for name, command in get_group(of).commands.items()
    if isinstance(command, Later)
}


def test_there_are_such_commands() -> None:
    assert set(LATER) >= {"serve", "explain", "lint", "certs", "crds", "interpret", "apply", "controller"}


@pytest.mark.parametrize("command", LATER.values(), ids=LATER)
def test_the_line_in_the_list_is_the_first_of_the_command(command: Any) -> None:
    assert command.help == command.load().help.split("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize("name", [name for name, command in get_group(app).commands.items()])
def test_the_help_of_a_command_is_its_own(name: str) -> None:
    result = CliRunner().invoke(app, [name, "-h"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"Usage: fleethook {name} " in result.stdout
    assert result.stdout.count("--help") == 1
    assert "--install-completion" not in result.stdout
    assert "Options" in result.stdout


def test_a_name_that_is_nearly_one_is_corrected() -> None:
    result = CliRunner().invoke(app, ["lnit"])
    assert result.exit_code == 2
    assert "Did you mean 'lint'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--version"], ["urllib3", "fastapi", "msgspec", "cryptography", "kubernetes_asyncio", "lupa"]),
        (["--help"], ["urllib3", "fastapi", "msgspec", "cryptography", "kubernetes_asyncio", "lupa"]),
        (["crds", "--data-dir", "/nowhere", "cache", "ls"], ["fastapi", "aiohttp", "kubernetes_asyncio", "lupa"]),
        (["certs", "--help"], ["fastapi", "urllib3", "kubernetes_asyncio", "lupa"]),
    ],
)
def test_a_command_imports_what_it_needs(arguments: list[str], unneeded: list[str]) -> None:
    code = f"""
import sys
from app.cli import app
try:
    app({arguments!r})
except SystemExit as left:
    assert not left.code, left.code
found = sys.modules.keys() & set({unneeded!r})
assert not found, found
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=NET)
    assert done.returncode == 0, done.stderr
