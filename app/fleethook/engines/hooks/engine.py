"""The engine for admission rules in Python."""

from typing import Final

from fleethook.engine import CommandSpec, Engine

_FOLDER: Final = "fleethook.engines.hooks"

ENGINE: Final = Engine(
    name="hooks",
    order=50,
    system="Admission rules",
    server=f"{_FOLDER}.hooks_server:HooksServer",
    resources=f"{_FOLDER}.hooks_server:list_resources",
    settings=f"{_FOLDER}.hooks_settings:HooksSettings",
    commands={
        "hooks": CommandSpec(f"{_FOLDER}.commands.hooks:hooks", "Test and check admission rules in Python."),
    },
    lint=f"{_FOLDER}.commands.rule_findings:lint_rules",
    page=f"{_FOLDER}.pages.rules:PAGE",
)
"""All that the engine contributes."""
