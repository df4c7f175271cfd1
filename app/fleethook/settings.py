"""The settings of the server. Flags override ``FLEETHOOK_*`` environment variables, which override the file."""

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from fleethook.engine import installed_engines
from fleethook.model.formats.fixed_addresses import FORM, parse_fixed_addresses
from fleethook.model.formats.quantity import Quantity
from fleethook.model.karmada import ConventionsMode

ENV_PREFIX = "FLEETHOOK_"
CONFIG_VARIABLE = "FLEETHOOK_CONFIG"

# An object in etcd has at most 1.5 MiB. A review carries it twice, JSON text is longer than protobuf, and managed
# fields come on top. controller-runtime limits bodies to 7 MiB for the same reasons; we round up.
_BODY_LIMIT = 8 * 1024 * 1024

_NAMESPACED = r"^[a-z0-9-]+/[a-z0-9.-]+$"
_SERVICE = r"^[a-z0-9-]+/[a-z0-9-]+(:\d{1,5})?$"

_MAX_PLAN_CACHE_BYTES = 1 << 40
_MAX_RECORD_BYTES = 1 << 50


def _parse_bytes(value: object) -> object:
    """Return the bytes of a quantity such as ``256Mi``. Pydantic checks values that are not text."""
    return int(Quantity.parse(value.strip())) if isinstance(value, str) else value


def is_loopback(host: str) -> bool:
    """Return whether a host to listen on is a loopback address. The only such name is ``localhost`` (RFC 6761 6.3)."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_addresses(entries: list[str]) -> list[str]:
    parse_fixed_addresses(entries)
    return entries


def _check_engines(names: frozenset[str]) -> frozenset[str]:
    unknown = sorted(names - installed_engines().keys())
    if unknown:
        raise ValueError(f"there is no engine {unknown[0]!r}; give some of {', '.join(sorted(installed_engines()))}")
    return names


class Settings(BaseSettings):
    """Settings of ``fleethook serve``. Each field is an environment variable and a key of the file; many are flags."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid")

    manifests: Annotated[
        Path | None, Field(description="Directory of YAML manifests to answer from. No cluster is needed.")
    ] = None
    exclude: Annotated[
        list[str],
        Field(description="Patterns of manifest files or directories to leave out, by name or by path."),
    ] = []
    kubeconfig: Annotated[
        Path | None, Field(description="Kubeconfig of the cluster to follow, for a server outside of it.")
    ] = None
    context: Annotated[
        str | None, Field(description="Context of the kubeconfig. Default: its current context.", min_length=1)
    ] = None
    in_cluster: Annotated[
        bool, Field(description="Follow the cluster that this pod runs in, with the pod's service account.")
    ] = False
    kcp: Annotated[
        bool, Field(description="The apiserver is a kcp: follow all its logical clusters (/clusters/*) at once.")
    ] = False
    kcp_cache_kubeconfig: Annotated[
        Path | None,
        Field(
            description="Kubeconfig of the cache server of a kcp with several shards. APIExports, their schemas and "
            "webhook configurations of all shards are then read from it. Default: those of one shard are read."
        ),
    ] = None
    discovery_interval: Annotated[
        float,
        Field(
            description="Seconds between discovery requests while the apiserver does not serve a needed resource.", gt=0
        ),
    ] = 10.0
    stale_after: Annotated[
        float,
        Field(description="Seconds without an answer from the apiserver until /readyz reports stale objects.", gt=0),
    ] = 180.0
    stale_is_unready: Annotated[
        bool, Field(description="Make a stale replica unready. It answers from its last known objects in both cases.")
    ] = False
    engines: Annotated[
        frozenset[str],
        AfterValidator(_check_engines),
        Field(description="Engines to serve. Objects of other engines are neither read nor kept."),
    ] = Field(default_factory=lambda: frozenset(installed_engines()))
    dispatch_as_kcp: Annotated[
        bool,
        Field(
            description="Behave like kcp: allow requests whose schema owner is ambiguous, and report only the "
            "first denial."
        ),
    ] = False
    dispatch_share_time: Annotated[
        bool,
        Field(
            description="Limit a mutating webhook with failurePolicy Ignore to its share of the time left for all "
            "webhooks."
        ),
    ] = False
    dispatch_workspace_connections: Annotated[
        int, Field(description="Concurrent calls of one webhook for requests of one logical cluster.", ge=1)
    ] = 32
    dispatch_workspace_calls: Annotated[
        int, Field(description="Concurrent calls of all webhooks for requests of one logical cluster.", ge=1)
    ] = 128
    dispatch_calls: Annotated[
        int,
        Field(
            description="Concurrent calls of webhooks. Beyond it, each logical cluster without a call may make "
            "one, up to twice as many in total.",
            ge=1,
        ),
    ] = 512
    dispatch_request_webhooks: Annotated[
        int, Field(description="Webhooks to call for one request. A request that matches more is refused.", ge=1)
    ] = 128
    dispatch_request_access_reviews: Annotated[
        int,
        Field(
            description="SubjectAccessReviews for the matchConditions of one request. A request that needs more "
            "is refused.",
            ge=1,
        ),
    ] = 64
    dispatch_cel_budget: Annotated[
        int,
        Field(
            ge=1,
            description="CEL cost of the matchConditions of all webhooks for one request, in Kubernetes' cost "
            "units. An apiserver allows 2500000 for each webhook.",
        ),
    ] = 10_000_000
    admission_control_config_file: Annotated[
        Path | None,
        Field(
            description="AdmissionConfiguration (apiserver.config.k8s.io/v1). Its kubeConfigFile holds the "
            "credentials for webhooks, by host. Changes are followed."
        ),
    ] = None
    dispatch_workspace_requests: Annotated[
        int | None,
        Field(
            description="Concurrent requests of one logical cluster per worker process. Further requests are refused. "
            "Default: half of max_connections.",
            ge=1,
        ),
    ] = None
    dispatch_metrics_clusters: Annotated[
        int,
        Field(
            description="Logical clusters that metrics name. Others are counted as `other`; 0 names none.",
            ge=0,
            le=10_000,
        ),
    ] = 100
    dispatch_callers: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Field(
            description="Names in client certificates (common name, DNS name or URI). Their holders may dispatch "
            "and explain requests of every logical cluster, and name the cluster of an object "
            "(/dispatch/…). Needs client_ca_file."
        ),
    ] = []
    dispatch_open: Annotated[
        Literal["manifests", "loopback", "never"],
        Field(
            description="Servers on a loopback address that dispatch and explain without credentials: those with "
            "manifests, all (loopback), or none (never)."
        ),
    ] = "manifests"
    dispatch_token_audiences: Annotated[
        list[str],
        Field(description="Accepted audiences of bearer tokens. Default: those of the apiserver."),
    ] = []
    dispatch_token_seconds: Annotated[
        float,
        Field(
            description="Seconds to reuse the apiserver's answer about a bearer token. A revoked right remains "
            "valid that long.",
            ge=0,
            le=600,
        ),
    ] = 60.0
    private_webhooks: Annotated[
        bool | None,
        Field(
            description="Allow webhooks of logical clusters at private addresses. Default: only if this server "
            "listens on a loopback address. Authors of configurations could otherwise reach this "
            "server's network."
        ),
    ] = None
    resolve: Annotated[
        list[str],
        AfterValidator(_check_addresses),
        Field(
            description=f"Addresses of webhooks that DNS does not know here, each as {FORM}. The host of a Service is "
            "NAME.NAMESPACE.svc. IPv6 addresses are in brackets."
        ),
    ] = []
    interpreters: Annotated[
        list[str], Field(description="Files (*.py) or modules that define resource interpreters.")
    ] = []
    bundle: Annotated[bool, Field(description="Use the bundled interpreters of well-known custom resources.")] = True
    interpret_conventions: Annotated[
        ConventionsMode,
        Field(
            description="Interpret custom resources that nothing else interprets by the conventions of Kubernetes: not "
            "at all (off), only InterpretHealth (health), or InterpretHealth, InterpretReplica, ReviseReplica and "
            "InterpretDependency (all). With interpreter_registration, Karmada then asks for all custom resources."
        ),
    ] = ConventionsMode.OFF
    karmada_namespace: Annotated[
        str, Field(description="Namespace of the ConfigMap karmada-config.", pattern=r"^[a-z0-9-]+$")
    ] = "karmada-system"
    lua_seconds: Annotated[
        float, Field(description="Seconds that a Lua script may run for one answer.", gt=0, le=30)
    ] = 1.0
    lua_instructions: Annotated[
        int, Field(description="Instructions that a Lua script may run for one answer.", ge=1000)
    ] = 20_000_000
    lua_memory: Annotated[int, Field(description="Memory limit of a Lua script, in MiB.", ge=1, le=1024)] = 32
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(description="Port to listen on. 0 chooses a free port.", ge=0, le=65535)] = 9443
    cert_dir: Annotated[Path, Field(description="Directory of the serving certificate. Created on first start.")] = (
        Path("certs")
    )
    cert_secret: Annotated[
        str | None,
        Field(
            description="NAMESPACE/NAME of the Secret that holds fleethook's own CA and certificate.",
            pattern=_NAMESPACED,
        ),
    ] = None
    certificate_interval: Annotated[
        float, Field(description="Seconds between checks whether certificates need renewal.", gt=0)
    ] = 30.0
    client_ca_file: Annotated[
        Path | None,
        Field(
            description="PEM file of authorities. Review routes require a client certificate that one of them "
            "signed. Routes of logical clusters require a name in dispatch_callers or a bearer token "
            "instead."
        ),
    ] = None
    registration: Annotated[
        Literal["off", "ca-bundle", "all"],
        Field(
            description="Objects to write to the cluster: none (off), the caBundle of existing webhook "
            "configurations (ca-bundle), or configurations and CustomResourceDefinitions too (all)."
        ),
    ] = "off"
    service: Annotated[
        str | None,
        Field(description="NAMESPACE/NAME[:PORT] of the Service in front of this server.", pattern=_SERVICE),
    ] = None
    webhook_url: Annotated[
        str | None, Field(description="URL that the apiserver calls, instead of a Service.", pattern=r"^https://")
    ] = None
    interpreter_registration: Annotated[
        bool | None,
        Field(
            description="The leader maintains the ResourceInterpreterWebhookConfiguration that makes Karmada call "
            "this server. Default: with --register."
        ),
    ] = None
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
        BeforeValidator(_parse_bytes),
        Field(
            description="Size of the cache of compiled plans, for example 256Mi. The plans of the least recently "
            "used subjects are evicted first.",
            ge=1 << 20,
            le=_MAX_PLAN_CACHE_BYTES,
        ),
    ] = 256 << 20
    lease_duration: Annotated[
        float,
        Field(description="Seconds until another replica replaces a leader that stopped renewing its Lease.", ge=1),
    ] = 15.0
    namespace: Annotated[
        str | None,
        Field(
            description="Namespace of this server, which holds its Lease. Default: the pod's, else that of the "
            "Service or Secret, else kube-system.",
            pattern=r"^[a-z0-9-]+$",
        ),
    ] = None
    dns_names: Annotated[
        list[str], Field(description="DNS names and addresses of a certificate that fleethook issues.")
    ] = [
        "localhost",
        "127.0.0.1",
        "::1",
    ]
    workers: Annotated[int, Field(description="Server processes. Each has its own store.", ge=1, le=64)] = 1
    body_limit: Annotated[int, Field(description="Largest accepted review, in bytes.", gt=0)] = _BODY_LIMIT
    header_timeout: Annotated[
        float, Field(description="Seconds from accepting a connection to the end of the request headers.", gt=0)
    ] = 10.0
    request_timeout: Annotated[float, Field(description="Seconds for a client to send a complete request.", gt=0)] = (
        30.0
    )
    write_timeout: Annotated[
        float,
        Field(description="Seconds until a client that acknowledges no sent byte is disconnected.", gt=0),
    ] = 15.0
    max_connections: Annotated[
        int | None,
        Field(
            description="Concurrent connections per worker process. Default: a quarter of its memory, at 1Mi each.",
            ge=1,
        ),
    ] = None
    body_memory: Annotated[
        Annotated[int, BeforeValidator(_parse_bytes), Field(ge=1 << 20)] | None,
        Field(
            description="Memory for request bodies, large answers and decoded objects per worker process, for "
            "example 256Mi. Default: a quarter of its memory.",
        ),
    ] = None
    # Longer than the 90 s after which an apiserver closes an idle connection (Go's DefaultTransport). The client always
    # closes first, so no request meets a connection that is closing.
    keep_alive: Annotated[int, Field(description="Seconds until an idle connection is closed.", ge=1)] = 120
    drain_delay: Annotated[
        float, Field(description="Seconds between becoming unready and closing the listener.", ge=0)
    ] = 0.0
    shutdown_timeout: Annotated[
        int, Field(description="Seconds for requests in flight to finish at shutdown.", ge=0)
    ] = 25
    log_reviews: Annotated[bool, Field(description="Write one log line per review.")] = True
    record: Annotated[
        Path | None,
        Field(
            description="Directory to record reviews and answers in. Hashes replace the values of Secrets and of "
            "record_redact."
        ),
    ] = None
    record_sample: Annotated[
        float, Field(description="Share of reviews to record. All servers choose the same ones, by uid.", gt=0, le=1)
    ] = 1.0
    record_max: Annotated[
        int,
        BeforeValidator(_parse_bytes),
        Field(
            description="Size of all files in the directory of the recording, for example 1Gi. The oldest files are "
            "deleted first.",
            ge=1 << 20,
            le=_MAX_RECORD_BYTES,
        ),
    ] = 1 << 30
    record_routes: Annotated[
        list[str], Field(description="Routes to record, for example /explore. Default: all routes of reviews.")
    ] = []
    record_redact: Annotated[
        list[str],
        Field(
            description="Fields to replace by hashes: a name for all members of that name, or /path/to/*/field or "
            "Kind:/path/to/*/field in objects."
        ),
    ] = []
    otlp_endpoint: Annotated[
        str | None,
        Field(
            description="Base URL of a collector that takes traces by OTLP over HTTP. Default: "
            "OTEL_EXPORTER_OTLP_ENDPOINT. Other OTEL_* variables configure the rest.",
            pattern=r"^https?://",
        ),
    ] = None

    @property
    def controls(self) -> bool:
        """Whether the leader runs the controller."""
        wanted = self.registration != "off" if self.controller is None else self.controller
        return wanted and "overrider" in self.engines

    @property
    def registers_interpreters(self) -> bool:
        """Whether the leader maintains the ResourceInterpreterWebhookConfiguration."""
        wanted = self.interpreter_registration
        return (self.registration == "all" if wanted is None else wanted) and "interpret" in self.engines

    @property
    def follows_cluster(self) -> bool:
        """Whether the server reads objects from an apiserver."""
        return self.in_cluster or self.kubeconfig is not None

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only processes of the same host can connect."""
        return is_loopback(self.host)

    @property
    def calls_private_webhooks(self) -> bool:
        """Whether webhooks of logical clusters may be at private addresses."""
        return self.listens_on_loopback if self.private_webhooks is None else self.private_webhooks

    def _check_kcp(self) -> None:
        if self.kcp and not self.follows_cluster:
            raise ValueError("--kcp needs a kubeconfig of the kcp: give --kubeconfig, and --context if needed")
        if self.kcp_cache_kubeconfig is not None and not self.kcp:
            raise ValueError("--kcp-cache-kubeconfig needs the kcp of the cache server: give --kcp and --kubeconfig")

    @model_validator(mode="after")
    def _complete(self) -> "Settings":
        if self.cert_secret is not None and not self.follows_cluster:
            raise ValueError("--cert-secret needs a cluster: give --kubeconfig or --in-cluster")
        self._check_kcp()
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("--context needs a kubeconfig: give --kubeconfig")
        if self.registration != "off" and not self.follows_cluster:
            raise ValueError("registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.controller and not self.follows_cluster:
            raise ValueError("the controller needs a cluster: give --kubeconfig or --in-cluster")
        if self.dispatch_callers and self.client_ca_file is None:
            raise ValueError("dispatch_callers needs client_ca_file: without it, no client certificate is verified")
        if self.registration == "all" and (self.service is None) == (self.webhook_url is None):
            raise ValueError("--register needs the address of this server: give either --service or --webhook-url")
        if self.interpreter_registration and not self.follows_cluster:
            raise ValueError("interpreter_registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.interpreter_registration and self.service is None and self.webhook_url is None:
            raise ValueError(
                "interpreter_registration needs the address of this server: give either --service or --webhook-url"
            )
        return self

    @model_validator(mode="after")
    def _one_source(self) -> "Settings":
        given = [self.manifests is not None, self.kubeconfig is not None, self.in_cluster]
        if sum(given) > 1:
            raise ValueError("give one of --manifests, --kubeconfig and --in-cluster")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic-settings'
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags (the init arguments), the environment, the file that ``FLEETHOOK_CONFIG`` names."""
        file = os.environ.get(CONFIG_VARIABLE)
        sources = (init_settings, env_settings)
        return (*sources, YamlConfigSettingsSource(settings_cls, yaml_file=file)) if file else sources
