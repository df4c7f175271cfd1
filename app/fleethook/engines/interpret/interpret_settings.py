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

    interpreters: Annotated[
        list[str], Field(description="Files (*.py) or modules that define resource interpreters.")
    ] = Field(default_factory=list)
    bundle: Annotated[bool, Field(description="Use the bundled interpreters of well-known custom resources.")] = True
    interpret_conventions: Annotated[
        ConventionsMode,
        Field(
            description="Operations that the conventions of Kubernetes answer for custom resources that no interpreter "
            "knows: none (off), InterpretHealth (health), or InterpretHealth, InterpretReplica, ReviseReplica and "
            "InterpretDependency (all). With interpreter_registration, Karmada then asks for all custom resources."
        ),
    ] = ConventionsMode.OFF
    karmada_namespace: Annotated[
        str, Field(description="Namespace of the ConfigMap karmada-config.", pattern=r"^[a-z0-9-]+$")
    ] = "karmada-system"
    lua_seconds: Annotated[
        float, Field(description="Seconds that a Lua script may run for one answer.", gt=0, le=30)
    ] = LUA_SECONDS
    lua_instructions: Annotated[
        int, Field(description="Instructions that a Lua script may run for one answer.", ge=1000)
    ] = LUA_INSTRUCTIONS
    lua_memory: Annotated[int, Field(description="Memory limit of a Lua script, in MiB.", ge=1, le=1024)] = LUA_MEMORY
    interpreter_registration: Annotated[
        bool | None,
        Field(
            description="The leader maintains the ResourceInterpreterWebhookConfiguration that makes Karmada call "
            "this server. Default: with --register."
        ),
    ] = None

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
