"""The settings of overriders."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from fleethook.server_settings import ServerSettings


class OverriderSettings(ServerSettings):
    """The settings of overriders. Each is a setting of the server, with its own name."""

    controller: bool | None = None
    """The leader renders workloads again and writes status. Default: if registration is on."""
    server_dry_runs: Annotated[int, Field(ge=0, le=20)] = 4
    """Rendered workloads that a review of an overrider or of its subject sends to kube-apiserver in a dry run, at most.
    Each distinct one is sent once. They need the right to create Deployments and StatefulSets. 0 sends none."""
    rollout_warning_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Warn about an edit of an overrider that replaces the pods of more than this share of its subject's workloads. 1
    never warns."""

    @property
    def controls(self) -> bool:
        """Whether the leader runs the controller."""
        controls_workloads = self.registration != "off" if self.controller is None else self.controller
        return controls_workloads and "overrider" in self.engines

    @property
    def runs_selection(self) -> bool:
        """Whether the leader restricts the webhooks to the workloads of subjects with an overrider.

        That needs the controller, which finds workloads that the apiserver did not send. It is off in kcp, where
        webhook configurations and workloads are in different clusters.
        """
        return self.controls and not self.kcp

    @model_validator(mode="after")
    def _check_controller(self) -> Self:
        if self.controller and not self.follows_cluster:
            raise ValueError("the controller needs a cluster: give --kubeconfig or --in-cluster")
        return self
