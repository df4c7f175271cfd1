"""Connections by kubeconfigs: authorities, proxies, watches. The client library is loaded without its models."""

import asyncio
import gc
import re
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster import apiserver_connection as module
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.apiserver_connection import Connection, build_url
from fleethook.tracing.spans_and_otel_variables import enter_span
from tests.hook_server import tls
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http
from tests.pki import Authority
from tests.tracing.test_spans_and_otel_variables import Noted


async def test_a_refused_connection_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with Connection(write_kubeconfig(tmp_path, server=address)) as connection:
        with pytest.raises(UnreachableError, match=f"^{address}: connection refused$"):
            await connection.json("GET", "/version")


async def test_an_invalid_url_is_named(tmp_path: Path) -> None:
    async with Connection(write_kubeconfig(tmp_path, server="https://127.0.0.1:99999")) as connection:
        with pytest.raises(UnreachableError, match=r"^https://127\.0\.0\.1:99999: this is no URL of an apiserver: "):
            await connection.json("GET", "/version")


async def test_a_server_with_another_ca_is_not_trusted(tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    context, _ = tls(tmp_path)
    with serve_http(lambda _: HTTPAnswer(200, {}), context) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(other.certificate)}
        async with Connection(write_kubeconfig(tmp_path, **cluster)) as connection:
            with pytest.raises(UnreachableError, match="certificate verify failed"):
                await connection.json("GET", "/version")


class RecordingServer:
    """A server, or a proxy for HTTP, that notes the target and headers of each request."""

    def __init__(self) -> None:
        self.received: list[tuple[str, Message]] = []
        self.url = ""

    def respond(self, request: HTTPRequest) -> HTTPAnswer:
        self.received.append((request.target, request.headers))
        return HTTPAnswer(200 if request.method == "GET" else 501, {})


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    made = RecordingServer()
    with serve_http(made.respond) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made


@pytest.fixture
def host(server: RecordingServer) -> str:
    return server.url


@pytest.fixture(autouse=True)
def _proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a proxy without a listener for all addresses."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def test_requests_have_spans_within_a_trace(host: str, tmp_path: Path) -> None:
    root = Noted()
    async with Connection(write_kubeconfig(tmp_path, server=host)) as connection:
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


SOMEBODY = "Basic c29tZWJvZHk6c2VjcmV0"


@pytest.mark.parametrize(
    ("environment", "cluster", "received"),
    [
        ({"http_proxy": "PROXY"}, {"server": "http://kube.test:6443"}, ("http://kube.test:6443/readyz", None)),
        ({"HTTP_PROXY": "USER"}, {"server": "http://kube.test"}, ("http://kube.test/readyz", SOMEBODY)),
        ({"HTTP_PROXY": "PROXY", "NO_PROXY": "10.0.0.0/8"}, {"server": "PROXY"}, ("/readyz", None)),
        # client-go uses neither a proxy of the environment for a loopback address, nor NO_PROXY for proxy-url.
        ({"HTTP_PROXY": "http://127.0.0.1:9"}, {"server": "PROXY"}, ("/readyz", None)),
        (
            {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "*"},
            {"server": "http://kube.test", "proxy-url": "USER"},
            ("http://kube.test/readyz", SOMEBODY),
        ),
    ],
)
async def test_a_kubeconfig_has_one_proxy_for_all_requests(
    server: RecordingServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    cluster: dict[str, str],
    received: tuple[str, str | None],
) -> None:
    urls = {"PROXY": server.url, "USER": server.url.replace("//", "//somebody:secret@")}
    (tmp_path / "netrc").write_text("default login a password netrc\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, urls.get(value, value))
    kubeconfig = write_kubeconfig(tmp_path, **{name: urls.get(value, value) for name, value in cluster.items()})
    async with Connection(kubeconfig) as connection:
        # Later changes have no effect, as in Go.
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        for _ in range(2):
            assert await connection.request("GET", "/readyz") == b"{}"
    found = [(path, headers["Proxy-Authorization"], headers["Authorization"]) for path, headers in server.received]
    assert found == [(*received, None)] * 2


@pytest.mark.parametrize("proxy", ["socks5://somebody:secret@127.0.0.1:9", "somebody:secret@127.0.0.1:9"])
async def test_the_message_about_an_unusable_proxy_has_no_credentials(proxy: str, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="proxy") as caught:
        async with Connection(write_kubeconfig(tmp_path, **{"server": "https://kube.test", "proxy-url": proxy})):
            pass
    assert "secret" not in str(caught.value)


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


async def test_a_rejected_request_does_not_end_the_others(tmp_path: Path) -> None:
    """After a 401, the credentials are read again, and the connections with the former ones are closed."""
    pending, again = threading.Event(), threading.Event()
    answers: list[str] = []

    def respond(request: HTTPRequest) -> HTTPAnswer:
        answers.append(request.path)
        if request.path == "/rejected":
            (again.set if answers.count("/rejected") > 1 else pending.wait)()
            return HTTPAnswer(401, {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"})
        pending.set()
        if answers.count("/other") == 1:
            again.wait()
        return HTTPAnswer(200, {"other": True})

    with serve_http(respond) as port:
        async with Connection(write_kubeconfig(tmp_path, server=f"http://127.0.0.1:{port}")) as connection:
            calls = (connection.json("GET", "/rejected"), connection.json("GET", "/other"))
            rejected, other = await asyncio.gather(*calls, return_exceptions=True)
    assert re.match(r"401 Unauthorized: .+ rejected the credentials of .+: a token may have expired", str(rejected))
    assert other == {"other": True}


LOADED = "[name for name in sys.modules if name.startswith('kubernetes_asyncio')]"


def run_python(code: str) -> str:
    made = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_a_connection_loads_neither_models_nor_api_methods() -> None:
    loaded = run_python(f"import fleethook.cluster.apiserver_connection\nprint(*{LOADED}, sep='\\n')").split()
    assert "kubernetes_asyncio.config.kube_config" in loaded
    assert [
        name
        for name in loaded
        if name.startswith(("kubernetes_asyncio.client.models.", "kubernetes_asyncio.client.api."))
    ] == []
    assert len(loaded) < 30


def test_other_code_gets_the_complete_library() -> None:
    code = """
import fleethook.cluster.apiserver_connection
import kubernetes_asyncio
from kubernetes_asyncio import client, watch
from kubernetes_asyncio.client import CoreV1Api, V1Pod
from kubernetes_asyncio.client import *
assert kubernetes_asyncio.__version__ and watch.Watch and kubernetes_asyncio.dynamic.DynamicClient
assert client.Configuration is fleethook.cluster.apiserver_connection.Configuration
assert client.models.V1Pod is V1Pod is globals()["V1Pod"]
assert client.ApiClient.deserialize and client.CoreV1Api is CoreV1Api
try:
    client.NoSuchName
except AttributeError as error:
    print(error)
"""
    assert "has no attribute 'NoSuchName'" in run_python(code)


def test_a_library_that_is_loaded_already_stays() -> None:
    code = "import kubernetes_asyncio as before\nimport fleethook.cluster.apiserver_connection\nassert sys.modules['kubernetes_asyncio'] is before"
    run_python(f"{code}\nassert type(before) is type(sys)")
