"""The settings of dispatching."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleethook.server_settings import ServerSettings


class DispatchSettings(ServerSettings):
    """The settings of dispatching. Each is a setting of the server, with its own name."""

    dispatch_as_kcp: bool = False
    """Behave like kcp: allow requests whose schema owner is ambiguous, and report only the first denial."""
    dispatch_callers: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Names in client certificates (common name, DNS name or URI). Their holders may dispatch and explain requests of
    every logical cluster, and name the cluster of an object (/dispatch/…). Needs client_ca_file."""
    dispatch_open: Literal["manifests", "loopback", "never"] = "manifests"
    """Servers on a loopback address that dispatch and explain without credentials: those with manifests, all
    (loopback), or none (never)."""
    dispatch_token_audiences: list[str] = Field(default_factory=list)
    """Accepted audiences of bearer tokens. Default: those of the apiserver."""
    private_webhooks: bool | None = None
    """Allow webhooks of logical clusters at private addresses. Default: only if this server listens on a loopback
    address. Authors of configurations could otherwise reach this server's network."""

    @property
    def calls_private_webhooks(self) -> bool:
        """Whether webhooks of logical clusters may be at private addresses."""
        return self.listens_on_loopback if self.private_webhooks is None else self.private_webhooks

    @model_validator(mode="after")
    def _check_callers(self) -> Self:
        if self.dispatch_callers and self.client_ca_file is None:
            raise ValueError("dispatch_callers needs client_ca_file: without it, no client certificate is verified")
        return self
