"""The engine for admission rules in Python."""

from typing import Final

from fleethook.engine import CommandSpec, Engine

_FOLDER: Final = "fleethook.engines.rules"

ENGINE: Final = Engine(
    name="rules",
    order=50,
    system="Admission rules",
    server=f"{_FOLDER}.rules_server:RulesServer",
    resources=f"{_FOLDER}.rules_server:list_resources",
    settings=f"{_FOLDER}.rules_settings:RulesSettings",
    commands={
        "rules": CommandSpec(
            f"{_FOLDER}.commands.rules_test_check_export:rules", "Test and check admission rules in Python."
        )
    },
    lint=f"{_FOLDER}.commands.rule_lint:lint_rules",
    page=f"{_FOLDER}.pages.rules:PAGE",
)
"""All that the engine contributes."""
