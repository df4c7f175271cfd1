"""One server process: its certificate, its registration, its requests."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from app.api.log_lines import LogLines
from app.api.trimming import tune_allocator
from app.asgi import Fleethook, create_app
from app.certs.context import ReloadingContext
from app.certs.files import CertificateFiles, ensure_certificates, keep_certificates
from app.cli.acceptor import bind
from app.cli.leader import lead, withdraw_selection, withdraws_selection
from app.cli.server import GracefulServer
from app.cli.terminal import flush, write
from app.cli.workers import inherited_listeners
from app.lifetime import running
from app.registration.webhooks import service_of
from app.settings import Settings

Beside = Callable[[Coroutine[Any, Any, None], str], Awaitable[None]]
"""Runs something, by a name, beside the server."""


class _Certificates(NamedTuple):
    """The serving certificate's files, and who must be trusted to trust it."""

    files: CertificateFiles
    bundle: Callable[[], bytes]


async def run_server(settings: Settings, lines: LogLines) -> bool:
    """Serve until told to stop; return whether it ever served.

    Args:
        settings: The settings.
        lines: Takes the log lines of reviews; flushed by the time that signals end the process at once again.

    Raises:
        CertificateError: There is no usable certificate.
        APIError: The apiserver refuses what is needed to start.
        UnreachableError: It does not answer.
        OSError: A file cannot be read or written.
    """
    tune_allocator()
    async with contextlib.AsyncExitStack() as stack:
        app = create_app(settings, log=lines.write)

        async def beside(work: Coroutine[Any, Any, None], name: str) -> None:
            await stack.enter_async_context(running(work, name=name, ended=app.ended.append))

        certificates = await _certificates(settings, stack, beside)
        reloading = ReloadingContext(certificates.files, settings.client_ca_file)
        await beside(reloading.follow(), "certificate reload")
        listening = asyncio.Event()

        def announce(port: int) -> None:
            app.port = port
            _announce(app, certificates.files, port)
            listening.set()

        if settings.registration != "off" or settings.controls or settings.registers_interpreters:
            await beside(lead(settings, app, certificates.bundle, listening), "leader")
        if withdraws_selection(settings):
            await beside(withdraw_selection(app, listening), "selection")
        server = GracefulServer(app, reloading.context, ready=announce, ended=lines.flush)
        await server.serve(sockets=inherited_listeners() or bind(settings.host, settings.port))
        return server.started


async def _certificates(settings: Settings, stack: contextlib.AsyncExitStack, beside: Beside) -> _Certificates:
    names = list(settings.dns_names)
    if settings.webhook_url is not None:
        names += [name for name in [urlsplit(settings.webhook_url).hostname] if name and name not in names]
    if settings.service is not None:
        names += service_of(settings.service).names()
    if settings.cert_secret is None:
        files = ensure_certificates(settings.cert_dir, names=names, now=datetime.now(UTC))
        await beside(
            keep_certificates(settings.cert_dir, names=names, check_seconds=settings.certificate_interval),
            "certificate renewal",
        )
        return _Certificates(files, files.authority_certificate.read_bytes)
    from app.certs.keeper import CertificateKeeper, SecretName  # noqa: PLC0415 - see app.kube
    from app.certs.rotation import Policy  # noqa: PLC0415 - as above
    from app.kube.connection import Connection  # noqa: PLC0415 - as above

    namespace, _, name = settings.cert_secret.partition("/")
    connection = await stack.enter_async_context(Connection(settings.kubeconfig, context=settings.context))
    keeper = CertificateKeeper(
        connection,
        SecretName(namespace, name),
        Policy(names),
        settings.cert_dir,
        check_seconds=settings.certificate_interval,
    )
    await keeper.ensure()
    await beside(keeper.run(), "certificates")
    return _Certificates(keeper.files, keeper.files.authority_certificate.read_bytes)


def _announce(app: Fleethook, files: CertificateFiles, port: int) -> None:
    made = " (made just now)" if files.created else ""
    write(
        f"fleethook serves on https://{app.settings.host}:{port}",
        f"  objects:     {_source(app)}",
        f"  certificate: {files.certificate}{made}",
        f"  CA:          {files.authority_certificate}",
    )
    flush()


def _source(app: Fleethook) -> str:
    if app.cluster is not None:
        return f"from {app.cluster.connection.host}, followed by list and watch; /readyz says when all are read"
    return f"{sum(app.store.counts().values())} from {app.settings.manifests}, followed while it changes"
