"""One server process: its certificate, its registration, its requests."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from app.api.logs import write_line
from app.api.metrics import LeaderState, Leading
from app.asgi import Fleethook, create_app
from app.certs.context import ReloadingContext
from app.certs.files import CertificateFiles, ensure_certificates, keep_certificates
from app.cli.server import GracefulServer, server_config
from app.cli.workers import inherited_listeners
from app.interpret.lua.announce import announce
from app.lifetime import running
from app.registration.webhooks import Reference, ServiceReference, URLReference
from app.settings import Settings

if TYPE_CHECKING:
    from app.kube.lease import Elector
    from app.overrider.controller import OverriderController

Beside = Callable[[Coroutine[Any, Any, None], str], Awaitable[None]]
"""Runs something, by a name, beside the server."""

_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Leader:
    """What is known of the work that one replica does for all."""

    def __init__(self, elector: "Elector") -> None:
        self._elector: Final = elector
        self.controller: OverriderController | None = None

    def state(self) -> LeaderState:
        """Return how it stands, for metrics."""
        controller = self.controller
        if controller is None:
            return LeaderState(leading=self._elector.leading)
        workloads = controller.workloads
        return LeaderState(
            leading=self._elector.leading,
            queued=len(controller.queue),
            reconciled=controller.reconciled,
            touched=workloads.touched,
            failed=workloads.failed,
        )


class _Certificates(NamedTuple):
    """The serving certificate's files, and who must be trusted to trust it."""

    files: CertificateFiles
    bundle: Callable[[], bytes]


async def run_server(settings: Settings) -> bool:
    """Serve until told to stop; return whether it ever served.

    Raises:
        CertificateError: There is no usable certificate.
        APIError: The apiserver refuses what is needed to start.
        UnreachableError: It does not answer.
        OSError: A file cannot be read or written.
    """
    async with contextlib.AsyncExitStack() as stack:
        app = create_app(settings, log=write_line)

        async def beside(work: Coroutine[Any, Any, None], name: str) -> None:
            await stack.enter_async_context(running(work, name=name, ended=app.ended.append))

        certificates = await _certificates(settings, stack, beside)
        reloading = ReloadingContext(certificates.files, settings.client_ca_file)
        await beside(reloading.follow(), "certificate reload")
        config = server_config(app, reloading.context)
        listening = asyncio.Event()

        def announce(port: int) -> None:
            _announce(app, certificates.files, port)
            listening.set()

        if settings.registration != "off" or settings.controls:
            await beside(_lead(settings, app, certificates.bundle, listening), "leader")
        server = GracefulServer(config, app, ready=announce)
        await server.serve(sockets=inherited_listeners())
        return server.started


async def _certificates(settings: Settings, stack: contextlib.AsyncExitStack, beside: Beside) -> _Certificates:
    names = list(settings.dns_names)
    if settings.webhook_url is not None:
        names += [name for name in [urlsplit(settings.webhook_url).hostname] if name and name not in names]
    if settings.service is not None:
        names += _service(settings.service).names()
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
    connection = await stack.enter_async_context(Connection(settings.kubeconfig))
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


async def _lead(settings: Settings, app: Fleethook, bundle: Callable[[], bytes], listening: asyncio.Event) -> None:
    """Do what one replica does for all: register, and keep workloads as they should be."""
    from app.control.events import Recorder  # noqa: PLC0415 - see app.kube
    from app.kube.connection import Connection  # noqa: PLC0415 - as above
    from app.kube.lease import Elector, LeaseName, Timing, identity  # noqa: PLC0415 - as above
    from app.overrider.controller import OverriderController  # noqa: PLC0415 - as above
    from app.overrider.workloads import Limits  # noqa: PLC0415 - as above
    from app.registration.keeper import Registrar  # noqa: PLC0415 - as above

    # Nobody is to be sent here before there is an answer.
    await listening.wait()
    cluster = app.cluster
    assert cluster is not None
    await cluster.source.wait_synced()
    async with Connection(settings.kubeconfig) as connection:
        exempt = [settings.service.partition("/")[0]] if settings.service else []
        reference = _reference(settings) if settings.registration == "all" else None
        registrar = Registrar(connection, bundle)
        recorder = Recorder(connection, component="fleethook", now=lambda: datetime.now(UTC))

        async def lead() -> None:
            controller = OverriderController(
                connection,
                app.store,
                cluster.source,
                app.plans,
                limits=Limits(settings.controller_rate, settings.controller_concurrency),
                resync_seconds=settings.resync_interval,
                absent_seconds=settings.discovery_interval,
            )
            leader.controller = controller
            async with asyncio.TaskGroup() as tasks:
                if settings.registration != "off":
                    tasks.create_task(
                        registrar.run(reference, exempt_namespaces=exempt, engines=settings.engines),
                        name="registration",
                    )
                if "interpret" in settings.engines:
                    tasks.create_task(announce(app.customizations, recorder), name="customizations")
                if settings.controls:
                    tasks.create_task(controller.run(), name="controller")

        lease = LeaseName(_namespace(settings), "fleethook")
        elector = Elector(connection, lease, identity(), timing=Timing.of(settings.lease_duration))
        leader = Leader(elector)
        app.metrics.registry.register(Leading(leader.state))
        # One of the replicas writes: with certificates that differ, they would undo each other's caBundle for ever.
        await elector.run(lead)


def _namespace(settings: Settings) -> str:
    """Return the namespace of this server."""
    if settings.namespace is not None:
        return settings.namespace
    if settings.in_cluster and _POD_NAMESPACE.exists():
        return _POD_NAMESPACE.read_text().strip()
    for named in (settings.service, settings.cert_secret):
        if named is not None:
            return named.partition("/")[0]
    return "kube-system"


def _reference(settings: Settings) -> Reference:
    if settings.webhook_url is not None:
        return URLReference(settings.webhook_url)
    assert settings.service is not None
    return _service(settings.service)


def _service(text: str) -> ServiceReference:
    namespace, _, rest = text.partition("/")
    name, _, port = rest.partition(":")
    return ServiceReference(namespace, name, int(port or 443))


def _announce(app: Fleethook, files: CertificateFiles, port: int) -> None:
    made = " (made just now)" if files.created else ""
    sys.stdout.write(
        f"fleethook serves on https://{app.settings.host}:{port}\n"
        f"  objects:     {_source(app)}\n"
        f"  certificate: {files.certificate}{made}\n"
        f"  CA:          {files.authority_certificate}\n"
    )
    sys.stdout.flush()


def _source(app: Fleethook) -> str:
    if app.cluster is not None:
        return f"from {app.cluster.connection.host}, followed by list and watch; /readyz says when all are read"
    return f"{sum(app.store.counts().values())} from {app.settings.manifests}, followed while it changes"
