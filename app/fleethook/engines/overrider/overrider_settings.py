"""The settings of overriders."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fleethook.server_settings import ServerSettings, parse_bytes

_MAX_PLAN_CACHE_BYTES = 1 << 40


class OverriderSettings(ServerSettings):
    """The settings of overriders. Each is a setting of the server, with its own name."""

    controller: Annotated[
        bool | None,
        Field(description="The leader renders workloads again and writes status. Default: if registration is on."),
    ] = None
    overrider_mode: Annotated[
        Literal["policy", "webhook", "auto"],
        Field(
            description="Overriders are applied by MutatingAdmissionPolicies if the apiserver serves them and the "
            "overrider compiles (auto, policy), or by the webhook. The annotation fleethook.io/mode of an overrider "
            "replaces it."
        ),
    ] = "auto"
    policy_limit: Annotated[
        int,
        Field(
            description="MutatingAdmissionPolicies that the leader applies at most. The webhook applies further "
            "overriders. Each policy takes memory of kube-apiserver, and time at each write of a workload. "
            "A policy counts once more for each 20 of its variables.",
            ge=0,
        ),
    ] = 100
    policy_owner: Annotated[
        str | None,
        Field(
            description="ClusterRole that owns the policies of overriders, so that Kubernetes deletes them with it. "
            "Default: none."
        ),
    ] = None
    controller_rate: Annotated[
        float, Field(description="Workloads that the controller updates per second on average.", gt=0)
    ] = 50.0
    controller_concurrency: Annotated[
        int, Field(description="Workloads that the controller updates concurrently.", ge=1, le=100)
    ] = 10
    resync_interval: Annotated[
        float, Field(description="Seconds between two passes of the controller over all workloads.", gt=0)
    ] = 600.0
    unfit_subject_edits: Annotated[
        Literal["warn", "refuse"],
        Field(
            description="Response to an edit of a YurtAppSet or YurtAppDaemon that no longer fits an entry of its "
            "overrider: warn or refuse."
        ),
    ] = "warn"
    server_dry_runs: Annotated[
        int,
        Field(
            description="Rendered workloads that a review of an overrider or of its subject sends to kube-apiserver in "
            "a dry run, at most. Each distinct one is sent once. They need the right to create Deployments and "
            "StatefulSets. 0 sends none.",
            ge=0,
            le=20,
        ),
    ] = 4
    rollout_warning_share: Annotated[
        float,
        Field(
            description="Warn about an edit of an overrider that replaces the pods of more than this share of its "
            "subject's workloads. 1 never warns.",
            ge=0,
            le=1,
        ),
    ] = 0.5
    rollout_refusal_share: Annotated[
        float,
        Field(
            description="Refuse an edit of an overrider that replaces the pods of more than this share of its "
            "subject's workloads, unless the annotation fleethook.io/allow-rollout allows it. 1 never refuses.",
            ge=0,
            le=1,
        ),
    ] = 1.0
    rollout_minimum: Annotated[
        int,
        Field(
            description="Neither warn about nor refuse an edit of an overrider that replaces the pods of fewer "
            "workloads.",
            ge=1,
        ),
    ] = 10
    plan_cache_bytes: Annotated[
        int,
        BeforeValidator(parse_bytes),
        Field(
            description="Size of the cache of compiled plans, for example 256Mi. The plans of the least recently "
            "used subjects are evicted first.",
            ge=1 << 20,
            le=_MAX_PLAN_CACHE_BYTES,
        ),
    ] = 256 << 20

    @property
    def controls(self) -> bool:
        """Whether the leader runs the controller."""
        wanted = self.registration != "off" if self.controller is None else self.controller
        return wanted and "overrider" in self.engines

    @model_validator(mode="after")
    def _check_controller(self) -> Self:
        if self.controller and not self.follows_cluster:
            raise ValueError("the controller needs a cluster: give --kubeconfig or --in-cluster")
        return self
