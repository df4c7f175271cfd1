"""The engine that interprets resources for Karmada."""

from typing import Final

from fleethook.engine import Engine, EngineCommand

_FOLDER: Final = "fleethook.engines.interpret"

ENGINE: Final = Engine(
    name="interpret",
    order=30,
    server=f"{_FOLDER}.interpret_server:InterpretServer",
    resources=f"{_FOLDER}.interpret_server:list_resources",
    indexes=f"{_FOLDER}.hooks.webhook_layer:INDEXES",
    settings=f"{_FOLDER}.interpret_settings:InterpretSettings",
    commands={
        "interpret": EngineCommand(
            f"{_FOLDER}.commands.interpret:interpret",
            "Run, test, check, convert and register resource interpreters: Lua, webhooks, Python, native.",
        ),
    },
    page=f"{_FOLDER}.pages.interpreters:PAGE",
)
"""All that the engine contributes."""
