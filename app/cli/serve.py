"""``fleethook serve``: the server."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from pydantic import ValidationError

from app.api.logs import configure_logging, write_line
from app.asgi import create_app
from app.certs.files import CertificateError, CertificateFiles, ensure_certificates, server_context
from app.cli.failures import fail
from app.cli.server import GracefulServer, server_config
from app.cli.workers import LISTENER_VARIABLE, Workers, listen
from app.settings import CONFIG_VARIABLE, Settings


def serve(
    manifests: Annotated[
        Path | None, typer.Option(help="Directory of YAML manifests to answer from; no cluster needed.")
    ] = None,
    cert_dir: Annotated[Path | None, typer.Option(help="Directory of the serving certificate [certs].")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one [9443].")] = None,
    workers: Annotated[int | None, typer.Option(help="Server processes, each with its own store [1].")] = None,
    drain_delay: Annotated[
        float | None, typer.Option(help="Seconds between readiness going off and the listener closing [0].")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; flags and FLEETHOOK_* win.")] = None,
) -> None:
    """Serve admission reviews over HTTPS.

    Objects come from --manifests and are followed while the files change. Every setting can also be given as
    FLEETHOOK_<NAME> or in the file of --config.
    """
    flags = {
        "manifests": manifests,
        "cert_dir": cert_dir,
        "host": host,
        "port": port,
        "workers": workers,
        "drain_delay": drain_delay,
    }
    settings = _settings({name: value for name, value in flags.items() if value is not None}, config)
    if settings.manifests is None:
        fail("there is nothing to answer from: give --manifests DIR")
    if not settings.manifests.is_dir():
        fail(f"--manifests: {settings.manifests} is not a directory")
    files = _certificates(settings)
    if settings.workers > 1 and LISTENER_VARIABLE not in os.environ:
        raise typer.Exit(_serve_with_workers(settings))
    _serve_here(settings, files)


def _settings(flags: dict[str, Any], config: Path | None) -> Settings:
    if config is not None:
        if not config.is_file():
            fail(f"--config: {config} is not a file")
        os.environ[CONFIG_VARIABLE] = str(config)
    try:
        return Settings(**flags)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        fail(f"settings: {problems}")


def _certificates(settings: Settings) -> CertificateFiles:
    try:
        return ensure_certificates(settings.cert_dir, names=settings.dns_names, now=datetime.now(UTC))
    except (CertificateError, OSError) as error:
        fail(str(error))


def _serve_with_workers(settings: Settings) -> int:
    try:
        listener = listen(settings.host, settings.port)
    except OSError as error:
        fail(f"cannot listen on {settings.host}:{settings.port}: {error}")
    with listener:
        return Workers(listener, sys.argv[1:], count=settings.workers).run()


def _serve_here(settings: Settings, files: CertificateFiles) -> None:
    configure_logging()
    app = create_app(settings, log=write_line)
    inherited = os.environ.get(LISTENER_VARIABLE)
    server_settings = server_config(
        app, server_context(files), listener=int(inherited) if inherited is not None else None
    )

    def announce(port: int) -> None:
        made = " (made just now)" if files.created else ""
        sys.stdout.write(
            f"fleethook serves on https://{settings.host}:{port}\n"
            f"  objects:     {sum(app.store.counts().values())} from {settings.manifests}, followed while it changes\n"
            f"  certificate: {files.certificate}{made}\n"
            f"  CA:          {files.authority_certificate}\n"
        )
        sys.stdout.flush()

    server = GracefulServer(server_settings, app, ready=announce)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve())
    if not server.started:
        raise typer.Exit(2)
