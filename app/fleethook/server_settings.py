"""The settings of a server without its engines, and the base class of the sections of engines."""

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from fleethook.engine import installed_engines
from fleethook.model.formats.client_config_and_addresses import parse_fixed_addresses
from fleethook.model.formats.quantity import Quantity

ENV_PREFIX = "FLEETHOOK_"
CONFIG_VARIABLE = "FLEETHOOK_CONFIG"

# An object in etcd has at most 1.5 MiB. A review carries it twice, JSON text is longer than protobuf, and managed
# fields come on top. controller-runtime limits bodies to 7 MiB for the same reasons; we round up.
_BODY_LIMIT = 8 * 1024 * 1024

_NAMESPACED = r"^[a-z0-9-]+/[a-z0-9.-]+$"
_SERVICE = r"^[a-z0-9-]+/[a-z0-9-]+(:\d{1,5})?$"

_MAX_RECORD_BYTES = 1 << 50

AnySection = TypeVar("AnySection", bound="ServerSettings")


def parse_bytes(value: object) -> object:
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
        listed = ", ".join(repr(one) for one in unknown)
        raise ValueError(f"there is no engine {listed}; give some of {', '.join(sorted(installed_engines()))}")
    return names


class ServerSettings(BaseSettings):
    """The settings of a server without those of its engines."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid")

    manifests: Path | None = None
    """Directory of YAML manifests to answer from. No cluster is needed."""
    exclude: list[str] = []
    """Patterns of manifest files or directories to leave out, by name or by path."""
    kubeconfig: Path | None = None
    """Kubeconfig of the cluster to follow, for a server outside of it."""
    context: Annotated[str | None, Field(min_length=1)] = None
    """Context of the kubeconfig. Default: its current context."""
    in_cluster: bool = False
    """Follow the cluster that this pod runs in, with the pod's service account."""
    kcp: bool = False
    """The apiserver is a kcp: follow all its logical clusters (/clusters/*) at once."""
    kcp_cache_kubeconfig: Path | None = None
    """Kubeconfig of the cache server of a kcp with several shards. APIExports, their schemas and webhook configurations
    of all shards are then read from it. Default: those of one shard are read."""
    kcp_export: Annotated[str | None, Field(pattern=r"^[a-z0-9.-]+$")] = None
    """APIExport in the workspace of the kubeconfig whose consumers get the admission rules: kcp then asks this server
    about writes in each workspace that binds the export and accepts its permission claims."""
    engines: Annotated[frozenset[str], AfterValidator(_check_engines)] = Field(
        default_factory=lambda: frozenset(installed_engines())
    )
    """Engines to serve. Objects of other engines are neither read nor kept."""
    resolve: Annotated[list[str], AfterValidator(_check_addresses)] = []
    """Addresses of webhooks that DNS does not know here, each as HOST:PORT:ADDRESS or HOST:PORT:ADDRESS:PORT. The host
    of a Service is NAME.NAMESPACE.svc. IPv6 addresses are in brackets."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 9443
    """Port to listen on. 0 chooses a free port."""
    cert_dir: Path = Path("certs")
    """Directory of the serving certificate. Created on first start."""
    cert_secret: Annotated[str | None, Field(pattern=_NAMESPACED)] = None
    """NAMESPACE/NAME of the Secret that holds fleethook's own CA and certificate."""
    client_ca_file: Path | None = None
    """PEM file of authorities. Review routes require a client certificate that one of them signed. Routes of logical
    clusters require a name in dispatch_callers or a bearer token instead."""
    registration: Literal["off", "ca-bundle", "all"] = "off"
    """Objects to write to the cluster: none (off), the caBundle of existing webhook configurations (ca-bundle), or
    configurations and CustomResourceDefinitions too (all)."""
    unregister_on_exit: bool = False
    """Delete the webhook configurations that --register has made when the server stops. Without them, kube-apiserver
    admits every object unchecked, so this is for laptops and CI."""
    service: Annotated[str | None, Field(pattern=_SERVICE)] = None
    """NAMESPACE/NAME[:PORT] of the Service in front of this server."""
    webhook_url: Annotated[str | None, Field(pattern=r"^https://")] = None
    """URL that the apiserver calls, instead of a Service."""
    lease_duration: Annotated[float, Field(ge=1)] = 15.0
    """Seconds until another replica replaces a leader that stopped renewing its Lease."""
    namespace: Annotated[str | None, Field(pattern=r"^[a-z0-9-]+$")] = None
    """Namespace of this server, which holds its Lease. Default: the pod's, else that of the Service or Secret, else
    kube-system."""
    dns_names: list[str] = [
        "localhost",
        "127.0.0.1",
        "::1",
    ]
    """DNS names and addresses of a certificate that fleethook issues."""
    body_limit: Annotated[int, Field(gt=0)] = _BODY_LIMIT
    """Largest accepted review, in bytes."""
    max_connections: Annotated[int | None, Field(ge=1)] = None
    """Concurrent connections. Default: a quarter of the memory, at 1Mi each."""
    body_memory: Annotated[int, BeforeValidator(parse_bytes), Field(ge=1 << 20)] | None = None
    """Memory for request bodies and decoded objects, for example 256Mi. Default: a quarter of the
    memory."""
    drain_delay: Annotated[float, Field(ge=0)] = 0.0
    """Seconds between becoming unready and closing the listener."""
    log_reviews: bool = True
    """Write one log line per review."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Format of log lines: text for people, or json. With auto, it is text if standard output and standard error are a
    terminal."""
    record: Path | None = None
    """Directory to record reviews and answers in. Reviews with Secrets are left out; hashes replace record_redact."""
    record_sample: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of reviews to record. All servers choose the same ones, by uid."""
    record_max: Annotated[int, BeforeValidator(parse_bytes), Field(ge=1 << 20, le=_MAX_RECORD_BYTES)] = 1 << 30
    """Size of all files in the directory of the recording, for example 1Gi. The oldest files are deleted first."""
    record_redact: list[str] = []
    """Fields to replace by hashes: a name for all members of that name, or /path/to/*/field or Kind:/path/to/*/field in
    objects."""
    otlp_endpoint: Annotated[str | None, Field(pattern=r"^https?://")] = None
    """Base URL of a collector that takes traces by OTLP over HTTP. Default: OTEL_EXPORTER_OTLP_ENDPOINT. Other OTEL_*
    variables configure the rest."""

    @property
    def follows_cluster(self) -> bool:
        """Whether the server reads objects from an apiserver."""
        return self.in_cluster or self.kubeconfig is not None

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only processes of the same host can connect."""
        return is_loopback(self.host)

    def _check_kcp(self) -> None:
        if self.kcp and not self.follows_cluster:
            raise ValueError("--kcp needs a kubeconfig of the kcp: give --kubeconfig, and --context if needed")
        if self.kcp_cache_kubeconfig is not None and not self.kcp:
            raise ValueError("--kcp-cache-kubeconfig needs the kcp of the cache server: give --kcp and --kubeconfig")
        if self.kcp_export is not None and (self.kcp or not self.follows_cluster):
            raise ValueError("--kcp-export needs the workspace of the APIExport: give --kubeconfig, and not --kcp")
        if self.kcp_export is not None and self.registration == "all" and self.webhook_url is None:
            raise ValueError("a kcp has no Services: with --kcp-export, give --webhook-url in place of --service")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.cert_secret is not None and not self.follows_cluster:
            raise ValueError("--cert-secret needs a cluster: give --kubeconfig or --in-cluster")
        self._check_kcp()
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("--context needs a kubeconfig: give --kubeconfig")
        if self.registration != "off" and not self.follows_cluster:
            raise ValueError("registration needs a cluster: give --kubeconfig or --in-cluster")
        if self.registration == "all" and (self.service is None) == (self.webhook_url is None):
            raise ValueError("--register needs the address of this server: give either --service or --webhook-url")
        if self.unregister_on_exit and self.registration != "all":
            raise ValueError("--unregister-on-exit needs --register")
        if self.unregister_on_exit and self.kcp_export is not None:
            raise ValueError("--unregister-on-exit: run fleethook uninstall --kcp-export after the server has stopped")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [self.manifests is not None, self.kubeconfig is not None, self.in_cluster]
        if sum(given) > 1:
            raise ValueError("give one of --manifests, --kubeconfig and --in-cluster")
        return self

    def section(self, kind: type[AnySection]) -> AnySection:
        """Return these settings, with the members of the section of an engine."""
        assert isinstance(self, kind)
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
