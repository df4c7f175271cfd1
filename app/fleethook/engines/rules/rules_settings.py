"""The settings of admission rules in Python."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from fleethook.server_settings import ServerSettings


class RulesSettings(ServerSettings):
    """The settings of admission rules. Each is a setting of the server, with its own name."""

    rules: list[Path] = Field(default_factory=list)
    """Files (*.py) of admission rules. Changes are loaded while the server runs. With files, the default of engines is
    rules alone."""
    rule_settings: dict[str, Any] = Field(default_factory=dict)
    """Values that admission rules get as their parameter settings."""
    rule_registration: bool | None = None
    """The leader maintains the webhook configurations of admission rules. Default: with --register."""

    @property
    def registers_rules(self) -> bool:
        """Whether the leader maintains the webhook configurations of rules."""
        wanted = self.rule_registration
        return (self.registration == "all" if wanted is None else wanted) and "rules" in self.engines

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if self.rules and "engines" not in self.model_fields_set:
            # A cluster with one small rule needs neither CustomResourceDefinitions nor webhooks of other engines.
            self.engines = frozenset({"rules"})
            self.model_fields_set.discard("engines")  # The summary of a start tells defaults from settings.
        if self.rules and "rules" not in self.engines:
            raise ValueError("--rules needs the engine rules: add it to engines, or remove engines")
        if self.rule_registration and not self.follows_cluster:
            raise ValueError("rule_registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.rule_registration and self.service is None and self.webhook_url is None:
            raise ValueError(
                "rule_registration needs the address of this server: give either --service or --webhook-url"
            )
        return self
