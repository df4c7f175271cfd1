"""Clients that are slow, half-open or flooding, against the real server process."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.raw_requests import HEAD, limits, read_to_end
from tests.serving import MUTATE, REVIEW, Server, serving
from tests.waiting import NET, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts, with which clients of these tests may also fail to be in time."""
    with serving(tmp_path_factory.mktemp("hostile"), **limits(0.4)) as started:
        yield started


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with timeouts that are long enough for any machine."""
    with serving(tmp_path_factory.mktemp("patient"), **limits(NET)) as started:
        yield started


def test_a_silent_client_is_cut(server: Server) -> None:
    assert read_to_end(server.raw()).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_never_starts_tls_is_cut(server: Server) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=NET) as connection:
        assert connection.recv(1) == b""
    # uvloop itself gives a handshake 60 s.
    assert time.monotonic() - began < 50


def test_a_client_that_stops_in_its_headers_is_cut(server: Server) -> None:
    connection = server.raw()
    connection.sendall(HEAD)
    assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_drips_its_headers_is_cut(server: Server) -> None:
    connection = server.raw()
    connection.settimeout(0.1)
    connection.sendall(HEAD)

    def drip() -> bytes | None:
        """Send a header; return the answer, None if there is none."""
        try:
            connection.sendall(b"X: y\r\n")
            return connection.recv(100)
        except TimeoutError:
            return None
        except OSError:
            return b""

    wait_for(lambda: (received := drip()) is not None and received[:13] in (b"", b"HTTP/1.1 408 "), what="it is cut")
    connection.close()


def test_a_client_that_stops_in_its_body_is_cut(server: Server) -> None:
    connection = server.raw()
    connection.sendall(HEAD + b"Content-Length: 500\r\n\r\n{")
    assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")


def after_a_request(server: Server, *, at_once: bytes = b"", later: bytes = b"") -> bytes:
    """Send a request and more bytes; return the answer of the server, once the client was fast enough.

    Args:
        server: the server.
        at_once: bytes that follow the request immediately.
        later: bytes to send after the answer.
    """
    body = REVIEW.read_bytes()

    def send() -> bytes:
        connection = server.raw()
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + at_once)
        received = connection.recv(65536)
        connection.sendall(later)
        return received + read_to_end(connection)

    return wait_for(lambda: (received := send()).startswith(b"HTTP/1.1 200 ") and received)


def test_a_client_that_stops_in_a_later_request_is_cut(server: Server) -> None:
    assert b"HTTP/1.1 408 " in after_a_request(server, at_once=HEAD)


def test_bytes_that_begin_no_request_do_not_keep_a_connection(server: Server) -> None:
    assert after_a_request(server, later=b"\r\n")


def test_headers_without_end_are_cut_by_their_size(patient: Server) -> None:
    connection = patient.raw()
    connection.sendall(HEAD)
    received = b""
    try:
        for _ in range(40):
            connection.sendall(b"X-A: " + b"a" * 8000 + b"\r\n")
        received = read_to_end(connection)
    except OSError:
        received = b"HTTP/1.1 431 "
    assert received == b"" or received.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


def test_pipelined_requests_are_answered_in_turn(patient: Server) -> None:
    connection = patient.raw()
    body = REVIEW.read_bytes()
    one = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    connection.sendall(one * 3)
    received = b""
    while received.count(b'"response"') < 3:
        received += connection.recv(65536)
    connection.close()
    assert received.count(b"HTTP/1.1 200 ") == 3


def test_a_body_over_the_limit_is_413_even_when_chunked(patient: Server) -> None:
    connection = patient.raw()
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4)
    assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
    connection.close()


def test_bytes_that_are_no_http_are_400(patient: Server) -> None:
    connection = patient.raw()
    connection.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
    assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


def test_after_all_of_that_the_server_answers_as_before(server: Server) -> None:
    wait_for(lambda: server.request("POST", MUTATE, REVIEW.read_bytes())[0] == 200)
    wait_for(lambda: "fleethook_reviews_in_flight 0.0" in server.request("GET", "/metrics")[1].decode())
    wait_for(lambda: "fleethook_connections 1.0" in server.request("GET", "/metrics")[1].decode())
    assert "Traceback" not in Path(server.log).read_text()
