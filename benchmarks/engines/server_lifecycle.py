"""The behaviour of a server at SIGTERM and after a change of its certificate, found by requests."""

import contextlib
import hashlib
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from app.certs.authority import KeyPair, issue_serving
from benchmarks.harness.processes import Running
from benchmarks.servers import NAMES, PATH

PATIENCE = 8.0


class Found(NamedTuple):
    """Answers of one server."""

    finishes: bool
    """Whether the server answers a request whose body was half sent at SIGTERM."""
    renewed: bool
    """Whether a new connection gets the new certificate some seconds after its files change (and SIGHUP, if the server needs it)."""
    kept: bool
    """Whether the server then still answers an earlier connection."""


@contextlib.contextmanager
def _connect(port: int, authority: Path) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        yield secured


def _request(body: bytes) -> bytes:
    head = f"POST {PATH}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _is_answered(connection: ssl.SSLSocket) -> bool:
    got = b""
    try:
        while (data := connection.recv(65536)) and b'"patch"' not in (got := got + data):
            pass
    except OSError:
        return False
    return got.startswith(b"HTTP/1.1 200") and b'"patch"' in got


def finishes_request(running: Running, authority: Path, body: bytes) -> bool:
    """Return whether a request that has begun is answered after SIGTERM; the server ends."""
    request = _request(body)
    with _connect(running.port, authority) as connection:
        connection.sendall(request)
        if not _is_answered(connection):
            return False
        connection.sendall(request[: len(request) // 2])
        time.sleep(0.2)
        running.process.terminate()
        time.sleep(0.5)
        try:
            connection.sendall(request[len(request) // 2 :])
        except OSError:
            return False
        return _is_answered(connection)


def reloads_certificate(
    running: Running, directory: Path, authority: KeyPair, body: bytes, *, hang_up: bool
) -> tuple[bool, bool]:
    """Return whether a new certificate is served without a restart, and whether an older connection is answered then."""
    trusted = directory / "ca.crt"
    request = _request(body)
    with _connect(running.port, trusted) as before:
        before.sendall(request)
        assert _is_answered(before)
        pair = issue_serving(authority, names=NAMES, now=datetime.now(UTC))
        for name, text in (("tls.key", pair.key_pem), ("tls.crt", pair.certificate_pem)):
            (directory / name).write_bytes(text)
        wanted = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair.certificate_pem.decode())).digest()
        if hang_up:
            os.kill(running.process.pid, signal.SIGHUP)
        renewed = _serves_certificate(running.port, trusted, wanted)
        time.sleep(1)  # time for a replaced worker to end
        try:
            before.sendall(request)
        except OSError:
            return renewed, False
        return renewed, _is_answered(before)


def _serves_certificate(port: int, authority: Path, wanted: bytes) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError), _connect(port, authority) as connection:
            shown = connection.getpeercert(binary_form=True)
            if shown and hashlib.sha256(shown).digest() == wanted:
                return True
        time.sleep(0.2)
    return False
