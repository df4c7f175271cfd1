"""One process of ``fleethook serve``: it prepares the certificate, starts the leader's work and answers requests."""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from fleethook.app import Fleethook, create_app
from fleethook.cli.output.terminal import flush, write
from fleethook.cli.serve.acceptor import bind, inherit_listeners
from fleethook.cli.serve.leader import lead, needs_leader
from fleethook.cli.serve.server import GracefulServer
from fleethook.cluster.certificates.certificate_files import CertificateFiles, ensure_certificates, renew_certificates
from fleethook.cluster.certificates.tls_context import ReloadingContext
from fleethook.cluster.registration.webhooks import service_of
from fleethook.lifetime import run_in_background
from fleethook.server.logs.log_lines import LogLines
from fleethook.server.metrics.metrics import certificate_gauge
from fleethook.server.protocol.trimming import tune_allocator
from fleethook.settings import Settings
from fleethook.tracing.setup import start_tracing

StartTask = Callable[[Coroutine[Any, Any, None], str], Awaitable[None]]
"""Starts a background task with a name. The task ends with the server."""


class _Certificates(NamedTuple):
    """The files of the serving certificate, and a function that returns its CAs as PEM."""

    files: CertificateFiles
    bundle: Callable[[], bytes]


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
    tune_allocator()
    async with contextlib.AsyncExitStack() as stack:
        if settings.follows_cluster:
            await _check_credentials(settings)
        app = _create_app(settings, lines, stack)

        async def start_task(work: Coroutine[Any, Any, None], name: str) -> None:
            await stack.enter_async_context(run_in_background(work, name=name, ended=app.ended.append))

        certificates = await _prepare_certificates(settings, stack, start_task)
        reloading = ReloadingContext(certificates.files, settings.client_ca_file)
        await start_task(reloading.watch(), "certificate reload")
        app.metrics.registry.register(certificate_gauge(lambda: reloading.expiry))
        workers = app.metrics.workers()
        if workers is not None:
            await start_task(workers.keep_published(), "metrics of workers")

        def report_ready(port: int) -> None:
            app.port = port
            _print_summary(app, certificates.files, port)
            app.listening.set()

        if needs_leader(app):
            await start_task(lead(app, certificates.bundle), "leader")
        server = GracefulServer(app, reloading.context, ready=report_ready, ended=lines.flush)
        await server.serve(sockets=inherit_listeners() or bind(settings.host, settings.port))
        return server.started


async def _check_credentials(settings: Settings) -> None:
    """Raise UnreachableError for unusable credentials; a failing start of the application would log a traceback."""
    from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see app.kube

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
    # Imported here, because a server that records nothing does not need them.
    from fleethook.recordings.record.metrics import RecordMetrics  # noqa: PLC0415
    from fleethook.recordings.record.setup import make_recorder, record_reviews  # noqa: PLC0415

    metrics = RecordMetrics()
    recorder = make_recorder(settings, settings.record, metrics)
    app = create_app(settings, log=lines.write, record=recorder, trace=trace)
    stack.enter_context(record_reviews(recorder, metrics, app.metrics.registry))
    return app


async def _prepare_certificates(
    settings: Settings, stack: contextlib.AsyncExitStack, start_task: StartTask
) -> _Certificates:
    """Create the certificate if necessary, in a directory or a Secret, and start its renewal."""
    names = list(settings.dns_names)
    if settings.webhook_url is not None:
        names += [name for name in [urlsplit(settings.webhook_url).hostname] if name and name not in names]
    if settings.service is not None:
        names += service_of(settings.service).names()
    if settings.cert_secret is None:
        files = ensure_certificates(settings.cert_dir, names=names, now=datetime.now(UTC))
        await start_task(
            renew_certificates(settings.cert_dir, names=names, check_seconds=settings.certificate_interval),
            "certificate renewal",
        )
        return _Certificates(files, files.authority_certificate.read_bytes)
    from fleethook.cluster.certificates.secret_store import (  # noqa: PLC0415 - see app.kube
        RotationPolicy,
        SecretName,
        SecretStore,
    )
    from fleethook.cluster.connection import Connection  # noqa: PLC0415 - as above

    namespace, _, name = settings.cert_secret.partition("/")
    connection = await stack.enter_async_context(Connection(settings.kubeconfig, context=settings.context))
    store = SecretStore(
        connection,
        SecretName(namespace, name),
        RotationPolicy(names),
        settings.cert_dir,
        check_seconds=settings.certificate_interval,
    )
    await store.ensure()
    await start_task(store.run(), "certificates")
    return _Certificates(store.files, store.files.authority_certificate.read_bytes)


def _print_summary(app: Fleethook, files: CertificateFiles, port: int) -> None:
    created = " (just created)" if files.created else ""
    write(
        f"fleethook serves on https://{app.settings.host}:{port}",
        f"  objects:     {_describe_source(app)}",
        f"  certificate: {files.certificate}{created}",
        f"  CA:          {files.authority_certificate}",
    )
    flush()


def _describe_source(app: Fleethook) -> str:
    if app.cluster is not None:
        return f"from {app.cluster.connection.host}, followed by list and watch; /readyz shows when all are read"
    return f"{sum(app.store.counts().values())} from {app.settings.manifests}, followed while it changes"
