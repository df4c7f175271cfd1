"""The engine for admission rules in Python."""

# ruff: noqa: PLC0415 - each command reads this record, so it imports as little as possible

from typing import Final

from fleethook.engine import CommandSpec, Engine, Right

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
    rights=f"{_FOLDER}.engine:list_rights",
    page=f"{_FOLDER}.pages.rules:PAGE",
)
"""All that the engine contributes."""


def list_rights() -> list[Right]:
    """Return the rights of a leader that registers the webhooks of rules."""
    from fleethook.cluster.registration.configuration_objects import API_VERSION

    plurals = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return [Right("create", API_VERSION.partition("/")[0], plural, leader=True) for plural in plurals]
