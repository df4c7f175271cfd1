"""Clients that hold connections and memory together, against the real server process."""

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.faults.raw_requests import HEAD, count_sockets, limits, read_status, read_to_end
from tests.serving import Server, serving
from tests.waiting import NET, wait_for

MAX_CONNECTIONS = 4
STALLED_BYTES = 600_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with few connections and little memory, and with long timeouts."""
    given = {**limits(NET, write=1), "FLEETHOOK_MAX_CONNECTIONS": str(MAX_CONNECTIONS), "FLEETHOOK_BODY_MEMORY": "1Mi"}
    given |= {"FLEETHOOK_BODY_LIMIT": "8000000"}
    with serving(tmp_path_factory.mktemp("crowds"), **given) as started:
        yield started


def connect(server: Server, address: str = "127.0.0.1", *, window: int | None = None) -> ssl.SSLSocket:
    plain = socket.socket()
    plain.settimeout(NET)
    plain.bind((address, 0))
    if window is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    plain.connect(("127.0.0.1", server.port))
    return server.context().wrap_socket(plain, server_hostname="localhost")


def test_a_new_client_takes_the_place_of_a_silent_one(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(server)) for _ in range(MAX_CONNECTIONS)]
        assert read_status(stack.enter_context(connect(server))) == b"200"
        assert read_to_end(silent[0]) == b""


def test_a_client_without_tls_is_closed_for_a_new_one(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=NET))
            for _ in range(MAX_CONNECTIONS)
        ]
        assert read_status(stack.enter_context(connect(server))) == b"200"
        assert silent[0].recv(1) == b""


def test_another_client_gets_in_while_one_client_stalls_all_its_bodies(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            connection = stack.enter_context(connect(server, "127.0.0.2"))
            connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 500\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        assert read_status(stack.enter_context(connect(server))) == b"200"


def test_a_client_that_stalls_a_large_body_does_not_take_the_memory_of_another_one(server: Server) -> None:
    with connect(server, "127.0.0.2") as stalled, connect(server, "127.0.0.3") as other:
        stalled.sendall(HEAD + b"Content-Length: 7000000\r\n\r\n" + b" " * STALLED_BYTES)

        def refused() -> bool:
            with connect(server, "127.0.0.2") as same:
                return read_status(same) == b"503"

        wait_for(refused)
        assert read_status(other) == b"200"
        stalled.close()
        wait_for(lambda: not refused())


def test_a_client_that_never_reads_is_disconnected(server: Server) -> None:
    before = wait_for(lambda: count_sockets(server))
    with connect(server, window=4096) as connection:
        wait_for(lambda: count_sockets(server) == before + 1)
        # Answers of 180 KB: more than the client's window, less than the send buffer of the system.
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5)
        wait_for(lambda: count_sockets(server) == before)


def test_thousands_of_requests_at_once_are_cut(server: Server) -> None:
    connection = connect(server)
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 3000)
    assert read_to_end(connection).count(b"HTTP/1.1 200 ") < 100


def test_too_many_headers_are_431(server: Server) -> None:
    connection = connect(server)
    connection.sendall(HEAD + b"a:b\r\n" * 200 + b"\r\n")
    assert read_to_end(connection).startswith(b"HTTP/1.1 431 ")


def test_trailers_without_end_are_cut(server: Server) -> None:
    connection = connect(server)
    with contextlib.suppress(OSError):
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n")
        for _ in range(100):
            connection.sendall(b"X-A: " + b"a" * 8000 + b"\r\n")
    assert read_to_end(connection)[:13] in (b"", b"HTTP/1.1 431 ")


def test_after_all_of_that_the_server_answers_as_before(server: Server) -> None:
    with connect(server) as connection:
        assert read_status(connection) == b"200"
    assert "Traceback" not in server.log.read_text()
