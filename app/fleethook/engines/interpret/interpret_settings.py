"""The settings of interpreters."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from fleethook.model.karmada import ConventionsMode
from fleethook.server_settings import ServerSettings

LUA_SECONDS: Final = 1.0
LUA_INSTRUCTIONS: Final = 20_000_000
LUA_MEMORY: Final = 32
"""MiB."""


class InterpretSettings(ServerSettings):
    """The settings of interpreters. Each is a setting of the server, with its own name."""

    interpreters: list[str] = Field(default_factory=list)
    """Files (*.py) or modules that define resource interpreters."""
    bundle: bool = True
    """Use the bundled interpreters of well-known custom resources."""
    interpret_conventions: ConventionsMode = ConventionsMode.OFF
    """Operations that the conventions of Kubernetes answer for custom resources that no interpreter knows: none (off),
    InterpretHealth (health), or InterpretHealth, InterpretReplica, ReviseReplica and InterpretDependency (all). With
    interpreter_registration, Karmada then asks for all custom resources."""
    karmada_namespace: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")] = "karmada-system"
    """Namespace of the ConfigMap karmada-config."""
    lua_seconds: Annotated[float, Field(gt=0, le=30)] = LUA_SECONDS
    """Seconds that a Lua script may run for one answer."""
    lua_instructions: Annotated[int, Field(ge=1000)] = LUA_INSTRUCTIONS
    """Instructions that a Lua script may run for one answer."""
    lua_memory: Annotated[int, Field(ge=1, le=1024)] = LUA_MEMORY
    """Memory limit of a Lua script, in MiB."""
    interpreter_registration: bool | None = None
    """The leader maintains the ResourceInterpreterWebhookConfiguration that makes Karmada call this server. Default:
    with --register."""

    @property
    def registers_interpreters(self) -> bool:
        """Whether the leader maintains the ResourceInterpreterWebhookConfiguration."""
        wanted = self.interpreter_registration
        return (self.registration == "all" if wanted is None else wanted) and "interpret" in self.engines

    @model_validator(mode="after")
    def _check_interpreter_registration(self) -> Self:
        if self.interpreter_registration and not self.follows_cluster:
            raise ValueError("interpreter_registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.interpreter_registration and self.service is None and self.webhook_url is None:
            raise ValueError(
                "interpreter_registration needs the address of this server: give either --service or --webhook-url"
            )
        return self
