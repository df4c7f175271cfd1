"""The engine for admission rules in Python."""

from typing import Final

from fleethook.engine import Engine

_FOLDER: Final = "fleethook.engines.hooks"

ENGINE: Final = Engine(
    name="hooks",
    order=50,
    server=f"{_FOLDER}.hooks_server:HooksServer",
    resources=f"{_FOLDER}.served_kinds:list_resources",
    settings=f"{_FOLDER}.hooks_settings:HooksSettings",
)
"""All that the engine contributes."""
