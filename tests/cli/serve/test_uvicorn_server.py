"""SIGTERM to a real server process with open connections. The clients never close them; the server must."""

import asyncio
import contextlib
import errno
import json
import logging
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from fleethook.app import create_app
from fleethook.cli.serve.uvicorn_server import Acceptor, GracefulServer, bind
from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates
from fleethook.cluster.registration.paths import INTERPRET
from fleethook.server.protocol.connections import ClientConnection, Connections, ConnectionStage
from fleethook.settings import Settings
from tests.other_constants import constants
from tests.serving import EXAMPLES, MUTATE, REVIEW, ROOT, Server, serving
from tests.waiting import NET, until, wait_for

BODY: Final = REVIEW.read_bytes()
HEAD: Final = f"POST {MUTATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
REQUEST: Final = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
NEVER: Final = 3600
# uvicorn logs this when it gives up connections, after 25 s by default.
GIVEN_UP: Final = "timeout graceful shutdown exceeded"


class Client:
    """One connection. It does not close its side of TLS when the server closes its own."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def answer(self) -> tuple[bytes, bool]:
        """Return the head of one answer, and whether it allows the request or an interpreter succeeded."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += self.read()
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < length:
            body += self.read()
        response = json.loads(body)["response"]
        return head, bool(response.get("allowed", response.get("successful")))

    def read(self) -> bytes:
        data = self.connection.recv(65536)
        assert data, "the server closed the connection"
        return data

    def is_ended(self) -> bool:
        """Return whether the server ends the connection with close_notify, as TLS requires."""
        return self.connection.recv(1) == b""


class SlowServer(NamedTuple):
    """A server and its connections, which end with the block."""

    server: Server
    stack: contextlib.ExitStack

    def connect(self, *, buffer: int | None = None) -> Client:
        plain = self.connect_without_tls(buffer=buffer).connection
        wrapped = self.server.context().wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
        return Client(self.stack.enter_context(wrapped))

    def connect_without_tls(self, *, buffer: int | None = None) -> Client:
        plain = self.stack.enter_context(socket.socket())
        if buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        plain.settimeout(NET)
        plain.connect(("127.0.0.1", self.server.port))
        return Client(plain)


def connect_silently(slow: SlowServer) -> Client:
    return slow.connect()


def connect_without_handshake(slow: SlowServer) -> Client:
    return slow.connect_without_tls()


def connect_and_wait(slow: SlowServer) -> Client:
    client = slow.connect()
    client.connection.sendall(REQUEST)
    assert client.answer()[1]
    return client


def send_half_a_head(slow: SlowServer) -> Client:
    client = slow.connect()
    client.connection.sendall(HEAD)
    return client


def send_half_a_second_head(slow: SlowServer) -> Client:
    client = connect_and_wait(slow)
    client.connection.sendall(HEAD)
    return client


def send_incomplete_request(slow: SlowServer) -> Client:
    """Send a request without the last 100 bytes of its body, after the server has answered 100 Continue."""
    client = slow.connect()
    client.connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    assert client.read() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.connection.sendall(BODY[:-100])
    return client


@contextlib.contextmanager
def serve_slow_clients(directory: Path, *arguments: str, **times: float) -> Iterator[SlowServer]:
    """Start a server without time limits for clients, so that only the shutdown ends connections."""
    limits = constants(header=NEVER, request=NEVER, keep_alive=NEVER, **times)
    with serving(directory, *arguments, **limits) as server:
        wait_for(lambda: server.log.read_text().count("Application startup complete") == 1)
        with contextlib.ExitStack() as stack:
            yield SlowServer(server, stack)


def begin_shutdown(server: Server) -> None:
    """Send SIGTERM, and wait until the server has closed its listener."""
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: server.log.read_text().count("Shutting down") == 1, what="the shutdown begins")


IDLE: Final[tuple[Callable[[SlowServer], Client], ...]] = (
    connect_silently, connect_without_handshake, connect_and_wait, send_half_a_head, send_half_a_second_head,
)  # fmt: skip


def test_idle_connections_do_not_delay_the_shutdown(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path) as slow:
        # Several connections of each kind.
        clients = [connect_client(slow) for connect_client in IDLE for _ in range(4)]
        slow.server.process.send_signal(signal.SIGTERM)

        assert slow.server.process.wait(timeout=NET) == 0
        assert GIVEN_UP not in slow.server.log.read_text()
        assert "Traceback" not in slow.server.log.read_text()
        assert all(client.is_ended() for client in clients)


def test_requests_in_flight_are_answered_before_the_server_exits(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path) as slow:
        clients = [send_incomplete_request(slow) for _ in range(4)]
        begin_shutdown(slow.server)
        wait_for(lambda: is_refused(slow.server), what="new connections are refused")
        assert slow.server.process.poll() is None

        for client in clients:
            client.connection.sendall(BODY[-100:])
        answers = [client.answer() for client in clients]

        assert all(allowed for _, allowed in answers)
        assert all(b"connection: close" in head for head, _ in answers)
        assert slow.server.process.wait(timeout=NET) == 0
        assert GIVEN_UP not in slow.server.log.read_text()


def is_refused(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=NET).close()
    except ConnectionRefusedError:
        return True
    return False


def test_after_sigterm_the_server_is_unready_and_answers_until_the_delay_ends(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path, "--drain-delay", str(NEVER)) as slow:
        kept, half = connect_and_wait(slow), send_incomplete_request(slow)
        slow.server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: slow.server.request("GET", "/readyz")[0] == 503)
        half.connection.sendall(BODY[-100:])
        assert half.answer()[1]
        for client in (kept, slow.connect()):
            client.connection.sendall(REQUEST)
            head, allowed = client.answer()
            assert allowed
            assert b"connection: close" in head
            assert client.is_ended()

        # The second signal ends the delay.
        slow.server.process.send_signal(signal.SIGTERM)
        assert slow.server.process.wait(timeout=NET) == 0
        assert GIVEN_UP not in slow.server.log.read_text()


def test_ctrl_c_with_a_sigterm_of_the_parent_is_one_signal(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path) as slow:
        half = send_incomplete_request(slow)
        slow.server.process.send_signal(signal.SIGINT)
        slow.server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: slow.server.log.read_text().count("Shutting down") == 1)
        half.connection.sendall(BODY[-100:])
        assert half.answer()[1]
        assert slow.server.process.wait(timeout=NET) == 0
        assert "Traceback" not in slow.server.log.read_text()


def test_a_second_ctrl_c_ends_requests_without_a_traceback(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path) as slow:
        send_incomplete_request(slow)
        slow.server.process.send_signal(signal.SIGINT)
        wait_for(lambda: slow.server.log.read_text().count("Shutting down") == 1)
        slow.server.process.send_signal(signal.SIGINT)
        assert slow.server.process.wait(timeout=NET) == 0
        assert "Traceback" not in slow.server.log.read_text()
        assert slow.server.log.read_text().count("Application shutdown complete") == 1


def test_requests_that_outlast_the_shutdown_leave_no_traceback(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path, shutdown=1) as slow:
        send_incomplete_request(slow)
        slow.server.process.send_signal(signal.SIGINT)
        assert slow.server.process.wait(timeout=NET) == 0
        assert GIVEN_UP in slow.server.log.read_text()
        assert "Traceback" not in slow.server.log.read_text()


@pytest.mark.parametrize("module", ["fleethook.settings", "fleethook.server.protocol.connections"])
def test_ctrl_c_while_the_server_imports_its_modules_prints_nothing(tmp_path: Path, module: str) -> None:
    # With importtime, Python prints a line for each module that a statement imports.
    command = [sys.executable, "-X", "importtime", "-m", "fleethook", "serve", "--manifests", str(tmp_path)]
    command += ["--port", "0", "--cert-dir", str(tmp_path / "certs")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stderr is not None
        # A line of another kind tells that the server has started without the module.
        last = next(line for line in process.stderr if line.split()[-1] == module or "import time:" not in line)
        assert last.startswith("import time:"), last
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=NET)
    assert process.returncode == 130
    assert [line for line in errors.splitlines() if not line.startswith("import time:")] == []


async def test_the_listener_closes_after_the_work_of_the_end(tmp_path: Path) -> None:
    app = create_app(Settings(manifests=EXAMPLES, cert_dir=tmp_path))
    done = asyncio.Event()

    async def stop() -> None:
        await done.wait()

    server = GracefulServer(app, ssl.create_default_context(), ready=lambda _: server.stop(), stopping=stop)
    serving = asyncio.create_task(server.serve(sockets=[]))
    while not app.draining:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not server.should_exit
    done.set()
    await serving
    assert server.should_exit


def build_status_question(message: str) -> dict[str, Any]:
    """Return Karmada's question for the status of a Job with a message of any length."""
    status = {"conditions": [{"type": "Failed", "status": "True", "message": message}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {}, "status": status}
    request = {"uid": "u", "operation": "InterpretStatus", "object": job}
    return {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}


def test_a_slow_reader_gets_its_complete_answer(tmp_path: Path) -> None:
    with serve_slow_clients(tmp_path) as slow:
        # The answer has the object's status, and is larger than the system's buffers.
        client = slow.connect(buffer=4096)
        body = json.dumps(build_status_question("m" * 6_000_000)).encode()
        head = HEAD.replace(MUTATE.encode(), INTERPRET.encode())
        client.connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: '"successful":true' in slow.server.log.read_text(), what="the question is answered")
        begin_shutdown(slow.server)
        # A server that does not wait for the client would end the connection within this time.
        time.sleep(1)

        assert client.answer()[1]
        assert client.is_ended()
        assert slow.server.process.wait(timeout=NET) == 0


class Echo(asyncio.Protocol):
    """Echoes bytes. After the handshake, it takes over the connection, as a protocol of HTTP does."""

    def __init__(self, connections: Connections, connection: ClientConnection) -> None:
        self._connections, self._connection = connections, connection
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connection.exchange = self  # type: ignore[assignment]

    def stage(self) -> ConnectionStage:
        return ConnectionStage.UNPROVEN

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.remove(self._connection)


def start(tmp_path: Path, listeners: list[socket.socket], connections: Connections) -> tuple[Acceptor, ssl.SSLContext]:
    """Start an acceptor, and return it with the context of its clients."""
    files = ensure_certificates(tmp_path, names=["localhost"], now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    acceptor = Acceptor(
        listeners,
        connections=connections,
        context=context,
        make=lambda connection: Echo(connections, connection),
    )
    acceptor.start()
    return acceptor, ssl.create_default_context(cafile=files.authority_certificate)


async def test_a_connection_is_counted_from_accept_to_its_end(tmp_path: Path) -> None:
    listeners, connections = bind("127.0.0.1", 0), Connections(10)
    port = listeners[0].getsockname()[1]
    acceptor, context = start(tmp_path, listeners, connections)
    with socket.create_connection(("127.0.0.1", port)):
        await until(lambda: len(connections) == 1, what="a client without a handshake is counted")
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert len(connections) == 2
        writer.close()
        await until(lambda: len(connections) == 1, what="the end of a connection is counted")
    await until(lambda: len(connections) == 0, what="the end of a failed handshake is counted")
    acceptor.close()
    await acceptor.wait_closed()


async def test_wait_closed_cancels_handshakes(tmp_path: Path) -> None:
    listeners, connections = bind("127.0.0.1", 0), Connections(10)
    acceptor, _ = start(tmp_path, listeners, connections)
    with socket.create_connection(listeners[0].getsockname()):
        await until(lambda: len(connections) == 1, what="the client is accepted")
        acceptor.close()
        await acceptor.wait_closed()
        assert len(connections) == 0


class Exhausted(socket.socket):
    """A listener of a process without free file descriptors."""

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_accepting_pauses_without_file_descriptors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (bound,) = bind("127.0.0.1", 0)
    listener = Exhausted(fileno=bound.detach())
    with caplog.at_level(logging.ERROR), socket.create_connection(listener.getsockname()):
        acceptor, _ = start(tmp_path, [listener], Connections(10))
        await until(lambda: bool(caplog.messages), what="the pause is logged")
        acceptor.close()
    assert "Too many open files: raise the limit of open files" in caplog.messages[0]


def test_a_port_in_use_is_an_error_with_the_address() -> None:
    (listener,) = bind("127.0.0.1", 0)
    with listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            bind("127.0.0.1", port)
