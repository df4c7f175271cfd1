import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.kube import connection as module
from app.kube.connection import Connection, build_url
from app.kube.errors import APIError, UnreachableError
from app.kube.rest_config import RestConfig
from app.tracing.spans import enter_span
from tests.e2e.pki import Authority
from tests.tracing.test_spans import Noted


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a proxy without a listener for all addresses."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def test_requests_have_spans_within_a_trace(host: str) -> None:
    root = Noted()
    async with Connection(RestConfig(host, ssl.create_default_context())) as connection:
        await connection.request("GET", "/api/v1/namespaces")
        with enter_span(root):
            await connection.request("GET", "/api/v1/nodes")
            with pytest.raises(APIError):
                await connection.request("POST", "/api/v1/nodes", body={})
    read, written = root.children
    assert (read.name, read.attributes, read.ends) == (
        "apiserver GET", {"http.request.method": "GET", "url.path": "/api/v1/nodes"}, [""],
    )  # fmt: skip
    assert written.name == "apiserver POST"
    assert len(written.ends) == 1
    assert written.ends[0]


async def test_a_pod_ignores_the_proxy_of_its_environment(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(client_configuration: Any) -> None:
        client_configuration.host = host

    # The original reads files that exist only in a pod.
    monkeypatch.setattr(module.kube_config, "load_incluster_config", load)
    async with Connection(None) as connection:
        assert await connection.request("GET", "/readyz") == b"{}"


def write_kubeconfig(directory: Path, **cluster: str) -> Path:
    kubeconfig = directory / "config"
    named = {
        "apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": cluster}],
    }  # fmt: skip
    kubeconfig.write_text(yaml.safe_dump(named))
    return kubeconfig


async def test_a_kubeconfig_uses_the_proxy_of_the_environment(host: str, tmp_path: Path) -> None:
    async with Connection(write_kubeconfig(tmp_path, server=host)) as connection:
        with pytest.raises(UnreachableError):
            await connection.request("GET", "/readyz")


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        (
            "https://kcp:6443/clusters/root",
            "/clusters/*/api/v1/namespaces",
            "https://kcp:6443/clusters/*/api/v1/namespaces",
        ),
        ("https://kcp:6443/clusters/root:org/", "/clusters/a/apis/x", "https://kcp:6443/clusters/a/apis/x"),
        ("https://kcp:6443/clusters/root", "/apis/x", "https://kcp:6443/clusters/root/apis/x"),
        ("https://proxy/k8s/clusters/c-1", "/api/v1/pods", "https://proxy/k8s/clusters/c-1/api/v1/pods"),
        ("https://kcp:6443", "/clusters/*/apis/x", "https://kcp:6443/clusters/*/apis/x"),
        ("https://kcp:6443/base/", "/clusters/*/apis/x", "https://kcp:6443/base/clusters/*/apis/x"),
        ("https://kcp:6443/clusters/root", "/services/cache/x", "https://kcp:6443/services/cache/x"),
    ],
)
def test_the_logical_cluster_of_a_path_replaces_that_of_the_server(host: str, path: str, expected: str) -> None:
    assert build_url(host, path) == expected


def test_a_quiet_watch_ends_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-apiserver sends no bookmark of a kind that did not change since it started."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def serve(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(65536)
            accepted.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nline\nha\r\n")
            accepted.recv(1)  # until the client ends the watch

    async def watch(port: int) -> list[bytes]:
        async with (
            Connection(write_kubeconfig(tmp_path, server=f"http://127.0.0.1:{port}")) as connection,
            connection.lines("/watch", query={}, idle=0.2) as lines,
        ):
            return [one async for one in lines]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        try:
            # An event that did not arrive completely is sent again.
            assert asyncio.run(watch(listener.getsockname()[1])) == [b"line"]
        finally:
            server.join()


def test_leaving_a_watch_does_not_wait_for_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server never completes the shutdown of TLS, as a slow server under load."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pair = Authority(tmp_path, "authority").issue("server", addresses=("127.0.0.1",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as stream:
            stream.recv(65536)
            stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nline\n\r\n")
            ended.wait()

    async def watch(port: int) -> bytes:
        authority = str(tmp_path / "authority.crt")
        kubeconfig = write_kubeconfig(
            tmp_path, **{"server": f"https://127.0.0.1:{port}", "certificate-authority": authority}
        )
        async with (
            Connection(kubeconfig) as connection,
            connection.lines("/watch", query={}, idle=60.0) as lines,
        ):
            return await anext(lines)

    with socket.create_server(("127.0.0.1", 0)) as listener, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        try:
            assert asyncio.run(watch(listener.getsockname()[1])) == b"line"
            gc.collect()
            assert [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)] == []
        finally:
            ended.set()
            server.join()
