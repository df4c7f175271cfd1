"""An engine that is off is not imported, except for its record, which names its parts, and its settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleethook.engine import installed_engines
from tests.waiting import NET

ROOT = Path(__file__).parents[2]
SERVE = """
import asyncio
from pathlib import Path
import fleethook.cli.serve.serve
from fleethook.app import create_app
from fleethook.settings import Settings

async def start() -> None:
    app = create_app(Settings(engines=[{name!r}], manifests=Path("examples")), log=None)
    async with app.router.lifespan_context(app):
        list(app.checks())
        app.metrics.exposition("")

asyncio.run(start())
"""
COMMAND = """
from fleethook.cli.command_line import run_command
try:
    run_command({words!r})
except SystemExit:
    pass
"""
COMMANDS = {
    "overrider": ["render", "-f", "examples/yurtappoverrider"],
    "dispatch": ["webhook", "test", "--help"],
    "interpret": ["interpret", "run", "--help"],
    "crds": ["crds", "--data-dir", "/nowhere", "cache", "ls"],
    "rules": ["rules", "test", "examples/admission"],
}


def list_modules(code: str) -> list[str]:
    """Return all modules that a process imported."""
    printing = "\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + printing], check=True, capture_output=True, text=True, timeout=NET, cwd=ROOT
    )
    return done.stderr.splitlines()[-1].split()


def list_foreign(code: str, engine: str) -> list[str]:
    """Return the modules of other engines that a process imported."""
    names = [one.split(".") for one in list_modules(code) if one.startswith("fleethook.engines.")]
    assert [engine] in [name[2:] for name in names]
    return [
        ".".join(name)
        for name in names
        if name[2] != engine and name[3:] not in ([], ["engine"], [f"{name[2]}_settings"])
    ]


@pytest.mark.parametrize("engine", installed_engines())
def test_a_server_imports_only_the_enabled_engine(engine: str) -> None:
    assert list_foreign(SERVE.format(name=engine), engine) == []


@pytest.mark.parametrize("engine", installed_engines())
def test_a_server_of_manifests_does_not_import_the_client_of_clusters(engine: str) -> None:
    # The library takes 63 MiB, and needs a home directory, which a container may lack.
    found = list_modules(SERVE.format(name=engine))
    assert {
        one for one in found if one in ("fleethook.cluster.apiserver_connection", "kubernetes_asyncio.config")
    } == set()


@pytest.mark.parametrize("engine", installed_engines())
def test_a_command_imports_only_its_engine(engine: str) -> None:
    assert list_foreign(COMMAND.format(words=COMMANDS[engine]), engine) == []
