"""``fleethook serve``: serve admission reviews over HTTPS, in one process."""

import asyncio
import contextlib
import json
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import uvloop

from fleethook.app import Fleethook, create_app
from fleethook.cli.command_line import UNREADABLE, Option, fail
from fleethook.cli.inputs.kubeconfig import find_kubeconfig
from fleethook.cli.options import (
    ContextOption,
    ExcludeOption,
    InterpretersOption,
    KcpCacheOption,
    ResolveOption,
    RulesOption,
    load_settings,
)
from fleethook.cli.output.text_output import flush, write
from fleethook.cli.serve.uvicorn_server import GracefulServer, bind
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.certificates.authority_and_serving_certificate import (
    CERTIFICATE_SECONDS,
    CertificateError,
    CertificateFiles,
    ReloadingContext,
    ensure_certificates,
    renew_certificates,
)
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.registration.rule_webhooks_and_outage import describe_outage
from fleethook.cluster.registration.webhook_configurations import MUTATING, VALIDATING, service_of
from fleethook.engine import EngineStartError, installed_engines
from fleethook.interpret.interpreter import LoadError
from fleethook.model.formats.text import describe_os_error
from fleethook.model.json import JSONObject
from fleethook.recordings.recorder import RecordMetrics, make_recorder, record_reviews
from fleethook.server.log import LogLines, choose_format, configure_logging
from fleethook.server.metrics import certificate_gauge
from fleethook.server.reviews.records_and_traces import RecordSettingError
from fleethook.server_settings import is_loopback
from fleethook.settings import Settings
from fleethook.tracing.spans_and_otel_variables import TracingError, start_tracing


def serve(
    manifests: Annotated[
        list[Path] | None, Option("--manifests", "-f", "--filename", help="Directory of YAML manifests to answer from.")
    ] = None,
    exclude: ExcludeOption = None,
    kubeconfig: Annotated[Path | None, Option(help="Kubeconfig of the cluster to follow from outside.")] = None,
    context: ContextOption = None,
    kcp: Annotated[bool | None, Option(help="Follow all logical clusters of a kcp at once.")] = None,
    kcp_cache_kubeconfig: KcpCacheOption = None,
    kcp_export: Annotated[
        str | None, Option(metavar="NAME", help="Register the rules in each workspace that consumes this APIExport.")
    ] = None,
    in_cluster: Annotated[bool | None, Option(help="Follow the cluster that this pod runs in.")] = None,
    cert_dir: Annotated[Path | None, Option(help="Directory of the serving certificate (default: certs).")] = None,
    cert_secret: Annotated[str | None, Option(help="NAMESPACE/NAME of the Secret of CA and certificate.")] = None,
    client_ca_file: Annotated[Path | None, Option(help="CAs of client certificates, which reviews then need.")] = None,
    register: Annotated[bool | None, Option(help="Apply CRDs and webhooks, and maintain their caBundle.")] = None,
    unregister_on_exit: Annotated[bool | None, Option(help="Delete the webhooks when the server stops.")] = None,
    service: Annotated[str | None, Option(help="Service of this server, as NAMESPACE/NAME[:PORT].")] = None,
    webhook_url: Annotated[str | None, Option(help="URL that the apiserver calls, instead of a Service.")] = None,
    namespace: Annotated[
        str | None, Option("--namespace", "-n", help="Namespace of this server and its Lease (default: the pod's).")
    ] = None,
    rules: RulesOption = None,
    interpreters: InterpretersOption = None,
    resolve: ResolveOption = None,
    host: Annotated[str | None, Option(help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[int | None, Option(help="Port to listen on; 0 chooses a free port (default: 9443).")] = None,
    drain_delay: Annotated[float | None, Option(help="Seconds from unready to closing the listener.")] = None,
    record: Annotated[Path | None, Option(help="Directory to record reviews in, without values of Secrets.")] = None,
    record_sample: Annotated[float | None, Option(help="Share of reviews to record (default: 1).")] = None,
    record_max: Annotated[str | None, Option(help="Size of the recording, such as 256Mi (default: 1Gi).")] = None,
    otlp_endpoint: Annotated[str | None, Option(help="URL of a collector of traces, by OTLP over HTTP.")] = None,
    config: Annotated[Path | None, Option(help="YAML file of settings; flags and FLEETHOOK_* override it.")] = None,
) -> None:
    """Serve admission reviews over HTTPS.

    The server reads objects from --manifests or from an apiserver (--kubeconfig, --in-cluster), and follows their
    changes. Flags override FLEETHOOK_<NAME> environment variables, which override the file of --config.
    docs/reference/settings.md lists all settings.

    Exit codes: 0 shut down by a signal; 2 invalid arguments or settings, or no usable certificate, apiserver or port;
    3 the application failed to start.
    """
    # The parameters have the names of settings, except for these two.
    flags = {name: value for name, value in locals().items() if value is not None}
    if manifests is not None:
        flags["manifests"], *others = manifests
        if others:
            fail(f"--manifests: give one directory, not {len(manifests)}; it may contain others")
    flags.pop("config", None)
    if flags.pop("register", False):
        flags["registration"] = "all"
    settings = load_settings(flags, config)
    _check_source(settings)
    with (
        LogLines(convert=choose_format(settings.log_format)) as lines,
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
        ) as error:
            fail(str(error))
        except OSError as error:
            fail(describe_os_error(error))
    if not served:
        raise SystemExit(UNREADABLE)


def _check_source(settings: Settings) -> None:
    """Exit with a message if the settings name no source of objects, or one that does not exist."""
    # Rules need no other objects than those under review.
    if settings.manifests is None and not settings.follows_cluster and not getattr(settings, "rules", None):
        fail(
            "no source of objects: give --manifests DIR, --kubeconfig FILE or --in-cluster, or rules with --rules FILE"
        )
    if settings.manifests is not None and not settings.manifests.is_dir():
        problem = "is a file; give its directory" if settings.manifests.exists() else "does not exist"
        fail(f"--manifests: {settings.manifests} {problem}")
    if settings.kubeconfig is not None:
        find_kubeconfig(settings.kubeconfig)


StartTask = Callable[[Coroutine[Any, Any, None], str], Awaitable[None]]
"""Starts a background task with a name. The task ends with the server."""


async def run_server(settings: Settings, lines: LogLines) -> bool:
    """Serve until a signal ends the server; return whether it began to serve.

    Args:
        settings: The settings.
        lines: Takes the log lines of reviews. They are flushed before the default signal handlers are restored.

    Raises:
        CertificateError: There is no usable certificate.
        APIError: The apiserver refuses a request that the start needs.
        UnreachableError: The apiserver does not answer.
        RecordSettingError: A setting of the recorder cannot be used.
        TracingError: Traces are wanted, and OpenTelemetry is not installed.
        OSError: A file cannot be read or written.
    """
    async with contextlib.AsyncExitStack() as stack:
        if settings.follows_cluster:
            await _check_credentials(settings)
        app = _create_app(settings, lines, stack)

        async def start_task(work: Coroutine[Any, Any, None], name: str) -> None:
            await stack.enter_async_context(run_in_background(work, name=name, ended=app.ended.append))

        files = await _prepare_certificates(settings, stack, start_task)
        reloading = ReloadingContext(files, settings.client_ca_file)
        await start_task(reloading.watch(), "certificate reload")
        app.metrics.registry.register(certificate_gauge(lambda: reloading.expiry))

        def report_ready(port: int) -> None:
            _print_summary(app, files, port)
            app.parts.listening.set()

        leader = await stack.enter_async_context(contextlib.AsyncExitStack())
        remaining = list[JSONObject]()
        if needs_leader(app):
            from fleethook.cli.serve.leader_tasks import lead  # noqa: PLC0415 - see fleethook.cluster

            work = lead(app, files.authority_certificate.read_bytes, ended=remaining.extend)
            await leader.enter_async_context(run_in_background(work, name="leader", ended=app.ended.append))
        server = GracefulServer(app, reloading.context, ready=report_ready, stopping=leader.aclose, ended=lines.flush)
        await server.serve(sockets=bind(settings.host, settings.port))
        if remaining and not settings.in_cluster:
            _print_outage(settings, remaining)
        return server.started


def needs_leader(app: Fleethook) -> bool:
    """Return whether the settings ask for any work of a leader."""
    return app.settings.registration != "off" or any(
        engine.leads or engine.registers for engine in app.engines.values()
    )


async def _check_credentials(settings: Settings) -> None:
    """Raise UnreachableError for unusable credentials; a failing start of the application would log a traceback."""
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - see fleethook.cluster

    async with Connection(settings.kubeconfig, context=settings.context):
        pass


def _create_app(settings: Settings, lines: LogLines, stack: contextlib.AsyncExitStack) -> Fleethook:
    """Return the application, with the tracing and the recorder that the settings ask for; both end with the server."""
    tracing = start_tracing(settings.otlp_endpoint)
    trace = None
    if tracing is not None:
        stack.callback(tracing.close)
        trace = tracing.start
    if settings.record is None:
        return create_app(settings, log=lines.write, trace=trace)
    metrics = RecordMetrics()
    recorder = make_recorder(settings, settings.record, metrics)
    app = create_app(settings, log=lines.write, record=recorder, trace=trace)
    stack.enter_context(record_reviews(recorder, metrics, app.metrics.registry))
    return app


async def _prepare_certificates(
    settings: Settings, stack: contextlib.AsyncExitStack, start_task: StartTask
) -> CertificateFiles:
    """Create the certificate if necessary, in a directory or a Secret, and start its renewal."""
    names = list(settings.dns_names)
    if settings.webhook_url is not None:
        names += [name for name in [urlsplit(settings.webhook_url).hostname] if name and name not in names]
    if settings.service is not None:
        names += service_of(settings.service).names()
    if settings.cert_secret is None:
        files = ensure_certificates(settings.cert_dir, names=names, now=datetime.now(UTC))
        await start_task(
            renew_certificates(settings.cert_dir, names=names, check_seconds=CERTIFICATE_SECONDS),
            "certificate renewal",
        )
        return files
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - as above
    from fleethook.cluster.certificates.secret_and_ca_rotation import (  # noqa: PLC0415 - see fleethook.cluster
        RotationPolicy,
        SecretName,
        SecretStore,
    )

    namespace, _, name = settings.cert_secret.partition("/")
    connection = await stack.enter_async_context(Connection(settings.kubeconfig, context=settings.context))
    store = SecretStore(
        connection,
        SecretName(namespace, name),
        RotationPolicy(names),
        settings.cert_dir,
        check_seconds=CERTIFICATE_SECONDS,
    )
    await store.ensure()
    await start_task(store.run(), "certificates")
    return store.files


def _print_summary(app: Fleethook, files: CertificateFiles, port: int) -> None:
    created = " (just created)" if files.created else ""
    write(
        f"fleethook serves on https://{app.settings.host}:{port}",
        f"  engines:     {_describe_engines(app.settings)}",
        f"  objects:     {_describe_source(app)}",
        f"  certificate: {files.certificate}{created}",
        f"  CA:          {files.authority_certificate}",
        *_describe_registration(app.settings, port),
    )
    flush()


def _describe_registration(settings: Settings, port: int) -> Iterator[str]:
    """Yield a line with the address that webhooks get, and the port of this server if it must be a mistake."""
    if settings.registration == "all":
        url = urlsplit(settings.webhook_url or "")
        differs = is_loopback(url.hostname or "") and (url.port or 443) != port
        note = f", but this server listens on port {port}: give --port {url.port or 443}" if differs else ""
        yield f"  webhooks:    {settings.webhook_url or settings.service}{note}"


def _print_outage(settings: Settings, remaining: Sequence[JSONObject]) -> None:
    """Print the effect of webhooks that stay registered after the server has stopped, and how to remove them."""
    options = {"kubeconfig": settings.kubeconfig, "context": settings.context}
    target = [f"--{name}={one}" for name, one in options.items() if one]
    objects = [f"{one['kind']}/{one['metadata']['name']}".lower() for one in remaining]
    calling = [one for one in remaining if one["kind"] in (MUTATING, VALIDATING)]
    webhooks = [webhook for one in calling for webhook in one.get("webhooks") or ()]
    write(
        f"The webhooks stay registered. While no server answers at {settings.webhook_url or settings.service}:",
        *(f"  {one}" for one in describe_outage(webhooks)),
        f"To remove them: {shlex.join(['kubectl', *target, 'delete', *objects])}",
    )
    flush()


def _describe_engines(settings: Settings) -> str:
    served = ", ".join(sorted(settings.engines))
    others = sorted(installed_engines().keys() - settings.engines)
    if not others:
        return served
    if "engines" in settings.model_fields_set:
        return f"{served}, which the setting engines names"
    every = json.dumps(sorted(installed_engines()))
    return f"{served} alone, because of --rules; to serve others too, set engines: FLEETHOOK_ENGINES='{every}'"


def _describe_source(app: Fleethook) -> str:
    if app.cluster is not None:
        return f"from {app.cluster.connection.host}, followed by list and watch; /readyz shows when all are read"
    if app.settings.manifests is None:
        return "only those in reviews; for others, give --manifests, --kubeconfig or --in-cluster"
    return f"{sum(app.store.counts().values())} from {app.settings.manifests}, followed while it changes"
