"""Runs ``fleethook interpret``, and writes customizations and fixtures."""

from pathlib import Path

from tests.cli.commands import invoke
from tests.serving import EXAMPLES

DIRECTORY = EXAMPLES / "interpreter"
RETENTION = EXAMPLES / "retention"
DATABASE = str(DIRECTORY / "database.py")

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: game}
spec:
  target: {apiVersion: games.example.com/v1, kind: Game}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          print("seen", observedObj.metadata.name)
          return observedObj.status ~= nil and observedObj.status.ready == true
        end
"""
GAME = "{apiVersion: games.example.com/v1, kind: Game, metadata: {name: g}, status: {ready: true}}"
FIXTURE = f"name: ready\noperation: InterpretHealth\nobservedObj: {GAME}\noutput: {{healthy: true}}\n"


def run(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    result = invoke(["interpret", *arguments])
    return result.exit_code, result.stdout, result.stderr


def write_bundle(directory: Path) -> Path:
    """Write a customization and its fixture with the layout of Karmada's bundle, and return the directory."""
    kind = directory / "games.example.com" / "v1" / "Game"
    (kind / "testdata").mkdir(parents=True)
    (kind / "customizations.yaml").write_text(CUSTOMIZATION)
    (kind / "testdata" / "interprethealth-test.yaml").write_text(FIXTURE)
    return directory
