"""Commands that are imported only when they run: the list shows their own help, and loads nothing else."""

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from app.cli import app
from app.cli.crds import crds
from app.cli.lazy import LazyCommand
from tests.waiting import NET

LAZY = {
    name: command
    for group in (app, crds)
    for name, command in get_group(group).commands.items()
    if isinstance(command, LazyCommand)
}


def test_the_commands_are_lazy() -> None:
    assert set(LAZY) >= {"serve", "explain", "lint", "certs", "crds", "interpret", "apply", "controller"}


@pytest.mark.parametrize("command", LAZY.values(), ids=LAZY)
def test_the_summary_is_the_first_paragraph_of_the_help(command: Any) -> None:
    assert command.help == command.load().help.split("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize("name", [name for name, command in get_group(app).commands.items()])
def test_each_command_shows_its_own_help(name: str) -> None:
    result = CliRunner().invoke(app, [name, "-h"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"Usage: fleethook {name} " in result.stdout
    assert result.stdout.count("--help") == 1
    assert "--install-completion" not in result.stdout
    assert "Options" in result.stdout


def test_a_misspelled_command_gets_a_suggestion() -> None:
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
def test_a_command_imports_only_the_libraries_that_it_needs(arguments: list[str], unneeded: list[str]) -> None:
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
