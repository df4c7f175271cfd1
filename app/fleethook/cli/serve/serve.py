"""``fleethook serve``: serve admission reviews over HTTPS."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import uvloop

from fleethook.cli.exit_codes import UNREADABLE, fail
from fleethook.cli.inputs.kubeconfig import find_kubeconfig_or_fail
from fleethook.cli.load_settings import load_settings
from fleethook.cli.options import ContextOption, ExcludeOption, InterpretersOption, KcpCacheOption, ResolveOption
from fleethook.cli.parameters import Option
from fleethook.cli.serve.acceptor import LISTENER_VARIABLE, LOCK_VARIABLE, Workers, listen
from fleethook.cli.serve.server_process import run_server
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.certificates.certificate_files import CertificateError
from fleethook.engine import EngineStartError
from fleethook.interpret.python_interpreter import LoadError
from fleethook.server.logs.log_lines import LogLines
from fleethook.server.logs.logs import configure_logging
from fleethook.server.reviews.recording import RecordSettingError
from fleethook.settings import Settings
from fleethook.tracing.setup import TracingError


def serve(
    manifests: Annotated[
        Path | None, Option(help="Directory of YAML manifests to answer from; no cluster is needed.")
    ] = None,
    exclude: ExcludeOption = None,
    kubeconfig: Annotated[
        Path | None, Option(help="Kubeconfig of the cluster to follow, for a server outside of it.")
    ] = None,
    context: ContextOption = None,
    kcp: Annotated[bool | None, Option("--kcp", help="Follow all logical clusters of a kcp at once.")] = None,
    kcp_cache_kubeconfig: KcpCacheOption = None,
    in_cluster: Annotated[bool | None, Option("--in-cluster", help="Follow the cluster that this pod runs in.")] = None,
    cert_dir: Annotated[Path | None, Option(help="Directory of the serving certificate (default: certs).")] = None,
    cert_secret: Annotated[
        str | None, Option(help="NAMESPACE/NAME of the Secret that holds fleethook's own CA and certificate.")
    ] = None,
    client_ca_file: Annotated[
        Path | None, Option(help="PEM file of the CAs of client certificates, which review routes then require.")
    ] = None,
    register: Annotated[
        bool | None,
        Option("--register", help="Apply CRDs and webhook configurations, and maintain their caBundle."),
    ] = None,
    service: Annotated[
        str | None, Option(help="NAMESPACE/NAME or NAMESPACE/NAME:PORT of the Service in front of this server.")
    ] = None,
    webhook_url: Annotated[str | None, Option(help="URL that the apiserver calls, instead of a Service.")] = None,
    namespace: Annotated[
        str | None,
        Option("--namespace", "-n", help="Namespace of this server, which holds its Lease (default: the pod's)."),
    ] = None,
    interpreters: InterpretersOption = None,
    resolve: ResolveOption = None,
    host: Annotated[str | None, Option(help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[int | None, Option(help="Port to listen on; 0 chooses a free port (default: 9443).")] = None,
    workers: Annotated[int | None, Option(help="Server processes, each with its own store (default: 1).")] = None,
    drain_delay: Annotated[
        float | None, Option(help="Seconds between becoming unready and closing the listener (default: 0).")
    ] = None,
    record: Annotated[
        Path | None, Option(help="Directory to record reviews and answers in, with hashes in place of Secrets.")
    ] = None,
    record_sample: Annotated[float | None, Option(help="Share of reviews to record (default: 1).")] = None,
    record_max: Annotated[
        str | None, Option(help="Size of the recording, for example 1Gi; the oldest files are deleted.")
    ] = None,
    record_route: Annotated[
        list[str] | None, Option(help="Route to record, for example /explore. Repeatable (default: all).")
    ] = None,
    otlp_endpoint: Annotated[
        str | None, Option(help="Base URL of a collector for traces (OTLP over HTTP). Needs fleethook[otel].")
    ] = None,
    config: Annotated[Path | None, Option(help="YAML file of settings; flags and FLEETHOOK_* override it.")] = None,
) -> None:
    """Serve admission reviews over HTTPS.

    The server reads objects from --manifests or from an apiserver (--kubeconfig, --in-cluster), and follows their
    changes. Flags override FLEETHOOK_<NAME> environment variables, which override the file of --config.
    docs/reference/settings.md lists all settings.

    Exit codes: 0 shut down by a signal; 2 invalid arguments or settings, or no usable certificate, apiserver or port;
    3 the application failed to start.
    """
    flags = {
        "manifests": manifests,
        "exclude": exclude or None,
        "kubeconfig": kubeconfig,
        "context": context,
        "kcp": kcp,
        "kcp_cache_kubeconfig": kcp_cache_kubeconfig,
        "in_cluster": in_cluster,
        "cert_dir": cert_dir,
        "cert_secret": cert_secret,
        "client_ca_file": client_ca_file,
        "registration": "all" if register else None,
        "service": service,
        "webhook_url": webhook_url,
        "namespace": namespace,
        "interpreters": interpreters,
        "resolve": resolve or None,
        "host": host,
        "port": port,
        "workers": workers,
        "drain_delay": drain_delay,
        "record": record,
        "record_sample": record_sample,
        "record_max": record_max,
        "record_routes": record_route or None,
        "otlp_endpoint": otlp_endpoint,
    }
    settings = load_settings({name: value for name, value in flags.items() if value is not None}, config)
    if settings.manifests is None and not settings.follows_cluster:
        fail("no source of objects: give --manifests DIR, --kubeconfig FILE or --in-cluster")
    if settings.manifests is not None and not settings.manifests.is_dir():
        fail(f"--manifests: {settings.manifests} is not a directory")
    if settings.kubeconfig is not None:
        find_kubeconfig_or_fail(settings.kubeconfig)
    if settings.workers > 1 and LISTENER_VARIABLE not in os.environ:
        raise SystemExit(_run_workers(settings))
    lock_file = os.environ.get(LOCK_VARIABLE)
    with (
        LogLines(lock_file=None if lock_file is None else Path(lock_file)) as lines,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        configure_logging(lines)
        try:
            served = runner.run(run_server(settings, lines))
        except (
            CertificateError,
            EngineStartError,
            LoadError,
            APIError,
            UnreachableError,
            RecordSettingError,
            TracingError,
            OSError,
        ) as error:
            fail(str(error))
    if not served:
        raise SystemExit(UNREADABLE)


def _run_workers(settings: Settings) -> int:
    try:
        listener = listen(settings.host, settings.port)
    except OSError as error:
        fail(f"cannot listen on {settings.host}:{settings.port}: {error}")
    with listener:
        return Workers(listener, sys.argv[1:], count=settings.workers).run()
