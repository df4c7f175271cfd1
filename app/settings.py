"""The settings of the server: flags over ``FLEETHOOK_*`` environment variables over a file."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

ENV_PREFIX = "FLEETHOOK_"
CONFIG_VARIABLE = "FLEETHOOK_CONFIG"

# An object in etcd may have 1.5 MiB; a review carries it twice, JSON text is longer than what etcd stores, and managed
# fields come on top. controller-runtime settled on 7 MiB by the same reckoning; we round up.
_BODY_LIMIT = 8 * 1024 * 1024


class Settings(BaseSettings):
    """What ``fleethook serve`` can be told; each field is a flag, an environment variable and a key of the file."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid")

    manifests: Annotated[
        Path | None, Field(description="Directory of YAML manifests that the server answers from; no cluster needed.")
    ] = None
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(description="Port to listen on; 0 takes a free one.", ge=0, le=65535)] = 9443
    cert_dir: Annotated[Path, Field(description="Directory of the serving certificate; made on first start.")] = Path(
        "certs"
    )
    dns_names: Annotated[list[str], Field(description="Names that a certificate made here is valid for.")] = [
        "localhost",
        "127.0.0.1",
        "::1",
    ]
    workers: Annotated[int, Field(description="Server processes; each keeps its own store.", ge=1, le=64)] = 1
    body_limit: Annotated[int, Field(description="Bytes of the largest review that is read.", gt=0)] = _BODY_LIMIT
    header_timeout: Annotated[float, Field(description="Seconds for a client to send its headers.", gt=0)] = 10.0
    request_timeout: Annotated[float, Field(description="Seconds for a client to send a whole request.", gt=0)] = 30.0
    # Longer than the 90 s after which an apiserver drops an idle connection (Go's DefaultTransport), so that it is
    # always the client who closes and no request is lost to a connection that is just being closed.
    keep_alive: Annotated[int, Field(description="Seconds to keep an idle connection.", ge=1)] = 120
    drain_delay: Annotated[
        float, Field(description="Seconds between readiness going off and the listener closing.", ge=0)
    ] = 0.0
    shutdown_timeout: Annotated[int, Field(description="Seconds for requests in flight at shutdown.", ge=0)] = 25
    log_reviews: Annotated[bool, Field(description="Write one log line per review.")] = True

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
