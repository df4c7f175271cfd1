"""A server that can end and start again at the same address, while its registration stays."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import ControlPlane, free_port
from tests.e2e.fleet import NAMESPACE, is_ready, is_trusted, service_account, token, unregister
from tests.e2e.proxy import Proxy
from tests.serving import Server, serving
from tests.waiting import wait_for


class RestartableServer:
    """A server that registers itself; between two starts its certificates and its port are kept."""

    def __init__(self, plane: ControlPlane, directory: Path, kubeconfig: Path, **environment: str) -> None:
        self._plane = plane
        self._directory = directory
        self._kubeconfig = kubeconfig
        self._environment = environment
        self._port = free_port()
        self._running = contextlib.ExitStack()
        self.server: Server | None = None

    def start(self) -> None:
        """Start it and wait until it serves and the apiserver trusts it."""
        given = ["--kubeconfig", str(self._kubeconfig), "--port", str(self._port), "--namespace", NAMESPACE]
        given += ["--register", "--webhook-url", f"https://127.0.0.1:{self._port}"]
        server = self._running.enter_context(serving(self._directory, *given, manifests=None, **self._environment))
        admin = self._plane.api()
        wait_for(lambda: is_ready(server), what="the server is ready")
        wait_for(lambda: is_trusted(admin, server), what="the apiserver trusts the server")
        self.server = server

    def kill(self) -> None:
        """Kill it as in a crash: the registration stays, and no server answers."""
        if self.server is not None:
            self.server.process.kill()
            self.server.process.wait(timeout=30)
            self.server = None
        self._running.close()

    def restart(self, **environment: str) -> None:
        """Restart it with further environment variables."""
        self.kill()
        self._environment = {**self._environment, **environment}
        self.start()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Kill the server, and start it again after the context."""
        self.kill()
        try:
            yield
        finally:
            self.start()


@contextlib.contextmanager
def run_restartable_server(
    plane: ControlPlane, directory: Path, *, proxy: Proxy | None = None, **environment: str
) -> Iterator[RestartableServer]:
    """Run a server; with ``proxy``, it reaches the apiserver through it, while the apiserver calls the server directly."""
    kubeconfig = service_account(plane)
    if proxy is not None:
        server = f"https://127.0.0.1:{proxy.port}"
        kubeconfig = plane.kubeconfig("proxied", {"token": token(plane.api())}, server=server)
    instance = RestartableServer(plane, directory, kubeconfig, **environment)
    try:
        instance.start()
        yield instance
    finally:
        instance.kill()
        unregister(plane.api())
