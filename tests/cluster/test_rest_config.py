"""Credentials in memory, and limits for an untrusted server."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.rest_config import RestConfig
from tests.e2e.pki import Authority

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(directory: Path, answer: Answer) -> Iterator[tuple[str, ssl.SSLContext]]:
    authority = Authority(directory, "ca")
    pair = authority.issue("server", addresses=("127.0.0.1",))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", ssl.create_default_context(cafile=str(authority.certificate))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def respond(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


async def test_requests_have_the_token_and_use_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    seen: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Authorization"))
        respond(b'{"a": 1}')(handler)

    with serving(tmp_path, answer) as (url, tls):
        async with Connection(RestConfig(url, tls, "t")) as connection:
            assert await connection.json("GET", "/version") == {"a": 1}
    assert seen == ["Bearer t"]


async def test_a_server_with_another_ca_is_not_trusted(tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    with serving(tmp_path, respond(b"{}")) as (url, _):
        tls = ssl.create_default_context(cafile=str(other.certificate))
        async with Connection(RestConfig(url, tls)) as connection:
            with pytest.raises(UnreachableError, match="certificate verify failed"):
                await connection.json("GET", "/version")


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    requested: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        requested.append(handler.path)
        respond(b"", 302, Location="/elsewhere")(handler)

    with serving(tmp_path, answer) as (url, tls):
        async with Connection(RestConfig(url, tls)) as connection:
            with pytest.raises(
                UnreachableError, match="redirects, which is not followed: use the URL of the API server itself"
            ):
                await connection.json("GET", "/version")
    assert requested == ["/version"]


@pytest.mark.parametrize("status", [200, 500])
async def test_the_size_of_a_response_is_limited(tmp_path: Path, status: int) -> None:
    with serving(tmp_path, respond(b" " * 100 + b"{}", status)) as (url, tls):
        async with Connection(RestConfig(url, tls, max_response_bytes=101)) as connection:
            with pytest.raises(UnreachableError, match="more than 101 bytes"):
                await connection.json("GET", "/version")
        async with Connection(RestConfig(url, tls, max_response_bytes=102)) as connection:
            if status == 200:
                assert await connection.json("GET", "/version") == {}
            else:
                with pytest.raises(APIError):
                    await connection.json("GET", "/version")


async def test_rejected_credentials_are_not_read_again(tmp_path: Path) -> None:
    with serving(tmp_path, respond(b"{}", 401)) as (url, tls):
        async with Connection(RestConfig(url, tls, "t")) as connection:
            with pytest.raises(APIError) as raised:
                await connection.json("GET", "/version")
    assert raised.value.code == 401
