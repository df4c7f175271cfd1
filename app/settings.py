"""The settings of the server: flags over ``FLEETHOOK_*`` environment variables over a file."""

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from app.model.quantity import Quantity

ENV_PREFIX = "FLEETHOOK_"
CONFIG_VARIABLE = "FLEETHOOK_CONFIG"

# An object in etcd may have 1.5 MiB; a review carries it twice, JSON text is longer than what etcd stores, and managed
# fields come on top. controller-runtime settled on 7 MiB by the same reckoning; we round up.
_BODY_LIMIT = 8 * 1024 * 1024

_NAMESPACED = r"^[a-z0-9-]+/[a-z0-9.-]+$"
_SERVICE = r"^[a-z0-9-]+/[a-z0-9-]+(:\d{1,5})?$"


_MAX_PLAN_CACHE_BYTES = 1 << 40


def _bytes_of(value: object) -> object:
    """Return the bytes that a quantity such as ``256Mi`` means; what is no text is left to pydantic."""
    return int(Quantity.parse(value.strip())) if isinstance(value, str) else value


def is_loopback(host: str) -> bool:
    """Return whether a host to listen on is a loopback address; of names, only ``localhost`` is (RFC 6761 6.3)."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Settings(BaseSettings):
    """What ``fleethook serve`` can be told; each field is a flag, an environment variable and a key of the file."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid")

    manifests: Annotated[
        Path | None, Field(description="Directory of YAML manifests that the server answers from; no cluster needed.")
    ] = None
    kubeconfig: Annotated[
        Path | None, Field(description="Kubeconfig of the cluster whose objects are followed, from outside of it.")
    ] = None
    context: Annotated[
        str | None, Field(description="Context of the kubeconfig; its current one if not given.", min_length=1)
    ] = None
    in_cluster: Annotated[
        bool, Field(description="Follow the objects of the cluster that this runs in, by the pod's service account.")
    ] = False
    kcp: Annotated[
        bool, Field(description="The apiserver is a kcp: read all its logical clusters (/clusters/*) at once.")
    ] = False
    discovery_interval: Annotated[
        float, Field(description="Seconds between looks for a resource that the apiserver does not serve yet.", gt=0)
    ] = 10.0
    stale_after: Annotated[
        float,
        Field(description="Seconds without a word from the apiserver after which /readyz says so.", gt=0),
    ] = 180.0
    stale_is_unready: Annotated[
        bool, Field(description="Whether a replica is not ready then; it answers from what it last knew either way.")
    ] = False
    engines: Annotated[
        frozenset[Literal["overrider", "interpret", "dispatch", "crds"]],
        Field(description="What is served; what is left out is neither read nor kept."),
    ] = frozenset({"overrider", "interpret", "dispatch", "crds"})
    dispatch_as_kcp: Annotated[
        bool,
        Field(
            description="Whether a request of which nobody can tell whose webhooks decide is let through, and one "
            "denial told of several, as kcp does."
        ),
    ] = False
    dispatch_share_time: Annotated[
        bool,
        Field(
            description="Whether a mutating webhook with failurePolicy Ignore may take only its share of the time "
            "that is left for all."
        ),
    ] = False
    dispatch_workspace_connections: Annotated[
        int, Field(description="Calls of one webhook at a time for requests of one logical cluster.", ge=1)
    ] = 32
    dispatch_workspace_calls: Annotated[
        int, Field(description="Calls of all webhooks at a time for requests of one logical cluster.", ge=1)
    ] = 128
    dispatch_calls: Annotated[
        int,
        Field(
            description="Calls of webhooks at a time. A logical cluster without any gets one beyond this, up to twice "
            "as many in total.",
            ge=1,
        ),
    ] = 512
    dispatch_request_webhooks: Annotated[
        int, Field(description="Webhooks that one request may be sent to; requests beyond it are refused.", ge=1)
    ] = 128
    dispatch_request_access_reviews: Annotated[
        int,
        Field(
            description="SubjectAccessReviews that the matchConditions of one request may cause; requests beyond it "
            "are refused.",
            ge=1,
        ),
    ] = 64
    dispatch_cel_budget: Annotated[
        int,
        Field(
            ge=1,
            description="What the matchConditions of all webhooks may cost for one request, in Kubernetes' units of "
            "cost. An apiserver allows 2500000 for each webhook.",
        ),
    ] = 10_000_000
    admission_control_config_file: Annotated[
        Path | None,
        Field(
            description="AdmissionConfiguration (apiserver.config.k8s.io/v1) whose kubeConfigFile says as whom "
            "webhooks are called, by host; followed while the files change."
        ),
    ] = None
    dispatch_workspace_requests: Annotated[
        int,
        Field(
            description="Requests of one logical cluster that are answered at a time; requests beyond it are refused.",
            ge=1,
        ),
    ] = 512
    dispatch_metrics_clusters: Annotated[
        int,
        Field(description="Logical clusters that metrics name, the others are `other`; 0 names none.", ge=0, le=10_000),
    ] = 100
    dispatch_callers: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Field(
            description="Names of client certificates (common name, DNS name or URI) whose holders may dispatch and "
            "explain requests of every logical cluster, and are believed which cluster an object is of (/dispatch/…); "
            "needs client_ca_file."
        ),
    ] = []
    dispatch_open: Annotated[
        Literal["manifests", "loopback", "never"],
        Field(
            description="Servers on a loopback address that dispatch and explain for callers without credentials: "
            "those of manifests, all (loopback), or none (never)."
        ),
    ] = "manifests"
    dispatch_token_audiences: Annotated[
        list[str],
        Field(description="Audiences, one of which a caller's bearer token must be for; the apiserver's own if empty."),
    ] = []
    dispatch_token_seconds: Annotated[
        float,
        Field(
            description="Seconds that the apiserver's answer about a bearer token is used; a right that is taken away "
            "lasts as long.",
            ge=0,
            le=600,
        ),
    ] = 60.0
    private_webhooks: Annotated[
        bool | None,
        Field(
            description="Whether webhooks of logical clusters may be at private addresses, by default only if this "
            "server listens on a loopback address. Authors of configurations could reach into this server's network."
        ),
    ] = None
    interpreters: Annotated[
        list[str], Field(description="Files (*.py) or modules that define interpreters of resources.")
    ] = []
    bundle: Annotated[
        bool, Field(description="Whether interpreters of well-known custom resources that come along are used.")
    ] = True
    karmada_namespace: Annotated[
        str, Field(description="Namespace of the ConfigMap karmada-config.", pattern=r"^[a-z0-9-]+$")
    ] = "karmada-system"
    lua_seconds: Annotated[
        float, Field(description="Seconds that a Lua script may take for one answer.", gt=0, le=30)
    ] = 1.0
    lua_instructions: Annotated[
        int, Field(description="Instructions that a Lua script may run for one answer.", ge=1000)
    ] = 20_000_000
    lua_memory: Annotated[int, Field(description="MiB that a Lua script may have at a time.", ge=1, le=1024)] = 32
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(description="Port to listen on; 0 takes a free one.", ge=0, le=65535)] = 9443
    cert_dir: Annotated[Path, Field(description="Directory of the serving certificate; made on first start.")] = Path(
        "certs"
    )
    cert_secret: Annotated[
        str | None,
        Field(
            description="NAMESPACE/NAME of a Secret that an own CA and certificate are kept in.", pattern=_NAMESPACED
        ),
    ] = None
    certificate_interval: Annotated[
        float, Field(description="Seconds between looks at whether certificates are due to be renewed.", gt=0)
    ] = 30.0
    client_ca_file: Annotated[
        Path | None,
        Field(
            description="PEM authorities; reviews are answered to clients with a certificate of theirs. Those of "
            "logical clusters take a name in dispatch_callers or a bearer token instead."
        ),
    ] = None
    registration: Annotated[
        Literal["off", "ca-bundle", "all"],
        Field(
            description="What is written to the cluster: nothing, caBundle of the webhook configurations that are "
            "there, or the configurations and CustomResourceDefinitions themselves."
        ),
    ] = "off"
    service: Annotated[
        str | None,
        Field(description="NAMESPACE/NAME[:PORT] of the Service in front of this server.", pattern=_SERVICE),
    ] = None
    webhook_url: Annotated[
        str | None, Field(description="Address that the apiserver calls, instead of a Service.", pattern=r"^https://")
    ] = None
    interpreter_registration: Annotated[
        bool | None,
        Field(
            description="Whether the leader keeps the ResourceInterpreterWebhookConfiguration that sends Karmada here; "
            "by default where it registers with --register."
        ),
    ] = None
    controller: Annotated[
        bool | None,
        Field(description="Whether the leader re-renders workloads and writes status; by default where it registers."),
    ] = None
    controller_rate: Annotated[
        float, Field(description="Workloads that the controller touches a second, in the long run.", gt=0)
    ] = 50.0
    controller_concurrency: Annotated[
        int, Field(description="Workloads that the controller touches at a time.", ge=1, le=100)
    ] = 10
    resync_interval: Annotated[
        float, Field(description="Seconds between two times that the controller goes through all workloads.", gt=0)
    ] = 600.0
    unfit_subject_edits: Annotated[
        Literal["warn", "refuse"],
        Field(
            description="Answer to an edit of a YurtAppSet or YurtAppDaemon that an entry of its overrider no longer "
            "fits: admit it with a warning, or refuse it."
        ),
    ] = "warn"
    plan_cache_bytes: Annotated[
        int,
        BeforeValidator(_bytes_of),
        Field(
            description="Bytes of compiled plans that are kept, such as 256Mi; the subjects that were asked for least "
            "recently are compiled again.",
            ge=1 << 20,
            le=_MAX_PLAN_CACHE_BYTES,
        ),
    ] = 256 << 20
    lease_duration: Annotated[
        float, Field(description="Seconds after which another replica takes over from a leader that is gone.", ge=1)
    ] = 15.0
    namespace: Annotated[
        str | None,
        Field(
            description="Namespace of this server, where its Lease is kept; the pod's own, or that of the Service or "
            "Secret, or kube-system.",
            pattern=r"^[a-z0-9-]+$",
        ),
    ] = None
    dns_names: Annotated[list[str], Field(description="Names that a certificate made here is valid for.")] = [
        "localhost",
        "127.0.0.1",
        "::1",
    ]
    workers: Annotated[int, Field(description="Server processes; each keeps its own store.", ge=1, le=64)] = 1
    body_limit: Annotated[int, Field(description="Bytes of the largest review that is read.", gt=0)] = _BODY_LIMIT
    header_timeout: Annotated[float, Field(description="Seconds from accept to the end of the headers.", gt=0)] = 10.0
    request_timeout: Annotated[float, Field(description="Seconds for a client to send a whole request.", gt=0)] = 30.0
    write_timeout: Annotated[
        float,
        Field(description="Seconds after which a client is disconnected that acknowledges no byte sent to it.", gt=0),
    ] = 15.0
    max_connections: Annotated[
        int | None,
        Field(
            description="Connections of one worker process at a time; by default as many as a quarter of its memory "
            "allows, at 1Mi each.",
            ge=1,
        ),
    ] = None
    body_memory: Annotated[
        Annotated[int, BeforeValidator(_bytes_of), Field(ge=1 << 20)] | None,
        Field(
            description="Bytes that request bodies, large answers and the objects decoded from bodies take in one "
            "worker process at a time, such as 256Mi; by default a quarter of its memory.",
        ),
    ] = None
    # Longer than the 90 s after which an apiserver drops an idle connection (Go's DefaultTransport), so that it is
    # always the client who closes and no request is lost to a connection that is just being closed.
    keep_alive: Annotated[int, Field(description="Seconds to keep an idle connection.", ge=1)] = 120
    drain_delay: Annotated[
        float, Field(description="Seconds between readiness going off and the listener closing.", ge=0)
    ] = 0.0
    shutdown_timeout: Annotated[int, Field(description="Seconds for requests in flight at shutdown.", ge=0)] = 25
    log_reviews: Annotated[bool, Field(description="Write one log line per review.")] = True

    @property
    def controls(self) -> bool:
        """Whether the leader runs the controller."""
        wanted = self.registration != "off" if self.controller is None else self.controller
        return wanted and "overrider" in self.engines

    @property
    def registers_interpreters(self) -> bool:
        """Whether the leader tells Karmada which kinds to send here."""
        wanted = self.interpreter_registration
        return (self.registration == "all" if wanted is None else wanted) and "interpret" in self.engines

    @property
    def follows_cluster(self) -> bool:
        """Whether objects come from an apiserver."""
        return self.in_cluster or self.kubeconfig is not None

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        return is_loopback(self.host)

    @property
    def calls_private_webhooks(self) -> bool:
        """Whether webhooks of logical clusters may be at private addresses."""
        return self.listens_on_loopback if self.private_webhooks is None else self.private_webhooks

    @model_validator(mode="after")
    def _complete(self) -> "Settings":
        if self.cert_secret is not None and not self.follows_cluster:
            raise ValueError("--cert-secret needs a cluster: give --kubeconfig or --in-cluster")
        if self.kcp and not self.follows_cluster:
            raise ValueError("--kcp needs the kcp to read: give --kubeconfig, and --context if needed")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("--context chooses from a kubeconfig file: give --kubeconfig")
        if self.registration != "off" and not self.follows_cluster:
            raise ValueError("registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.controller and not self.follows_cluster:
            raise ValueError("the controller needs a cluster: give --kubeconfig or --in-cluster")
        if self.dispatch_callers and self.client_ca_file is None:
            raise ValueError("dispatch_callers needs client_ca_file: without it, no client certificate is verified")
        if self.registration == "all" and (self.service is None) == (self.webhook_url is None):
            raise ValueError("--register needs to know where this server is: give one of --service and --webhook-url")
        if self.interpreter_registration and not self.follows_cluster:
            raise ValueError("interpreter_registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.interpreter_registration and self.service is None and self.webhook_url is None:
            raise ValueError("interpreter_registration needs one of --service and --webhook-url: where this server is")
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
        """Flags come as init arguments; the file is named by ``FLEETHOOK_CONFIG``."""
        file = os.environ.get(CONFIG_VARIABLE)
        sources = (init_settings, env_settings)
        return (*sources, YamlConfigSettingsSource(settings_cls, yaml_file=file)) if file else sources
