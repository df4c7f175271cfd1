"""An HTTP server on loopback whose answers a function gives, in threads, so that any code can be its client."""

import contextlib
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit


class HTTPRequest(NamedTuple):
    """A request; its handler is for answers that are streams."""

    method: str
    target: str
    headers: Message
    body: bytes
    handler: BaseHTTPRequestHandler

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    def read_json(self) -> Any:
        return json.loads(self.body) if self.body else None

    def begin_stream(self) -> None:
        """Send the head of an answer that ends with the connection."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()
        self.handler.wfile.flush()


class HTTPAnswer(NamedTuple):
    """An answer: bytes as they are, a text, or a document as JSON."""

    status: int
    body: Any = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


Respond = Callable[[HTTPRequest], HTTPAnswer | None]
"""Returns the answer to a request, None if it has sent one."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.server.respond(HTTPRequest(self.command, self.path, self.headers, body, self))
        if found is None:
            self.close_connection = True
            return
        status, content, headers = found
        if not isinstance(content, bytes):
            kind = "text/plain; charset=utf-8" if isinstance(content, str) else "application/json"
            headers = {"Content-Type": kind, **headers}
            content = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Write nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # Joined at the end, so that no connection stays open.

    def __init__(self, respond: Respond, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.respond = respond
        self._open: set[socket.socket] = set()
        if context is not None:
            # The handshake happens at the first read, on the connection's own thread.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client may go away, and is cut off at the end.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        """Close every connection and wait for its thread."""
        self.shutdown()
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.server_close()


@contextlib.contextmanager
def serve_http(respond: Respond, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve until the end of the block, over TLS with an SSL context; yield the port."""
    server = _Server(respond, context)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="HTTP server of a test")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.end()
        thread.join()
