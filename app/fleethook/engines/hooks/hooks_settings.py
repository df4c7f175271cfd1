"""The settings of admission rules in Python."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from fleethook.server_settings import ServerSettings


class HooksSettings(ServerSettings):
    """The settings of admission rules. Each is a setting of the server, with its own name."""

    hooks: list[Path] = Field(default_factory=list)
    """Files (*.py) of admission rules. Changes are loaded while the server runs. With files, the default of engines is
    hooks alone."""
    hook_settings: dict[str, Any] = Field(default_factory=dict)
    """Values that admission rules get as their parameter settings."""

    @model_validator(mode="after")
    def _check_hooks(self) -> Self:
        if self.hooks and "engines" not in self.model_fields_set:
            # A cluster with one small rule needs neither CustomResourceDefinitions nor webhooks of other engines.
            self.engines = frozenset({"hooks"})
            self.model_fields_set.discard("engines")  # The summary of a start tells defaults from settings.
        if self.hooks and "hooks" not in self.engines:
            raise ValueError("--hooks needs the engine hooks: add it to engines, or remove engines")
        return self
