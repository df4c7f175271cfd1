"""Requests written byte by byte, for tests of clients that break the rules of HTTP."""

import contextlib
import ssl
from pathlib import Path

from tests.other_constants import constants
from tests.serving import MUTATE, REVIEW, Server

HEAD = f"POST {MUTATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
BODY = REVIEW.read_bytes()
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


def limits(seconds: float, **others: float) -> dict[str, str]:
    """Return the environment of a server that gives a client ``seconds`` for the header of a request."""
    # The keep-alive timeout must not end a connection first.
    timeouts = constants(header=seconds, request=2 * seconds, keep_alive=3600, **others)
    return {**timeouts, "FLEETHOOK_BODY_LIMIT": "100000"}


def read_to_end(connection: ssl.SSLSocket) -> bytes:
    """Return everything until the server closes; without a close, the timeout of the socket fails the test."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    connection.close()
    return received


def read_status(connection: ssl.SSLSocket) -> bytes:
    """Send a review and return the status code of the response."""
    connection.sendall(REQUEST)
    received = connection.recv(65536)
    return received[9:12]


def count_sockets(server: Server) -> int:
    """Return the number of sockets that a server has open."""
    found = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.readlink()).startswith("socket:")
    return found
