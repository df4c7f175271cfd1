"""The settings of interpreters."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from fleethook.model.karmada import ConventionsMode, InterpreterRegistration
from fleethook.server_settings import ServerSettings


class InterpretSettings(ServerSettings):
    """The settings of interpreters. Each is a setting of the server, with its own name."""

    interpreters: list[str] = Field(default_factory=list)
    """Files (*.py) or modules that define resource interpreters."""
    bundle: bool = True
    """Use the bundled interpreters of well-known custom resources."""
    interpret_conventions: ConventionsMode = ConventionsMode.OFF
    """Operations that the conventions of Kubernetes answer for custom resources that no interpreter knows: none (off),
    InterpretHealth (health), or InterpretHealth, InterpretReplica, ReviseReplica and InterpretDependency (all). With
    interpreter_registration missing or all, Karmada then asks for all custom resources."""
    karmada_namespace: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")] = "karmada-system"
    """Namespace of the ConfigMap karmada-config."""
    interpreter_registration: InterpreterRegistration | None = None
    """Kinds and operations of the ResourceInterpreterWebhookConfiguration, with which Karmada calls this server: those
    of your own customizations and interpreters (own); with the bundled ones that Karmada does not interpret itself
    (missing); all that the server answers (all). The leader maintains it. Default: missing with --register, else
    off."""

    @property
    def chosen_registration(self) -> InterpreterRegistration:
        """The kinds and operations that the leader registers with Karmada."""
        if "interpret" not in self.engines:
            return InterpreterRegistration.OFF
        by_default = InterpreterRegistration.MISSING if self.registration == "all" else InterpreterRegistration.OFF
        return by_default if self.interpreter_registration is None else self.interpreter_registration

    @model_validator(mode="after")
    def _check_interpreter_registration(self) -> Self:
        if self.interpreter_registration in {None, InterpreterRegistration.OFF}:
            return self
        if not self.follows_cluster:
            raise ValueError("interpreter_registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.service is None and self.webhook_url is None:
            raise ValueError(
                "interpreter_registration needs the address of this server: give either --service or --webhook-url"
            )
        return self
