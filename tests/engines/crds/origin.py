"""An origin on loopback with scripted answers, a proxy in front of it, and the requests that both received.

    with serving(tarball(data)) as origin:
        download(Source(origin.url), into)
        assert len(origin.asked) == 1

Threads, so that synchronous code and other processes can be its clients. A connection serves one request and is closed.
"""

import base64
import contextlib
import re
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.hook_server import Certificate, resets, tls
from tests.waiting import NET, wait_for


class Asked(NamedTuple):
    """A request as it came; names of headers are small."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Connection:
    """A connection that an answer writes to."""

    def __init__(self, sock: socket.socket, server: "Server") -> None:
        self.sock = sock
        self.server = server

    def send(self, data: bytes) -> None:
        # In pieces, so that bytes that a client did not receive are not counted as sent.
        for start in range(0, len(data), 65536):
            piece = data[start : start + 65536]
            self.sock.sendall(piece)
            self.server.count(len(piece))

    def pause(self, seconds: float) -> None:
        """Wait, or until the server stops."""
        if self.server.stopped.wait(seconds):
            raise ConnectionAbortedError

    def reset(self) -> None:
        """End with RST instead of FIN."""
        resets(self.sock)
        self.sock.close()


Answer = Callable[[Asked, Connection], None]


class Server(ABC):
    """A listening socket and its counters."""

    def __init__(self, *, context: ssl.SSLContext | None, ca_pem: bytes) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.bytes_sent = 0
        self.ca_pem = ca_pem
        self.stopped = threading.Event()
        self._context = context
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def scheme(self) -> str:
        return "https" if self._context else "http"

    @property
    def base(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def count(self, sent: int) -> None:
        with self._lock:
            self.bytes_sent += sent

    @abstractmethod
    def handle(self, asked: Asked, connection: Connection) -> None:
        """Answer a request."""

    def cut(self) -> None:
        """End all connections that are open."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def stop(self) -> None:
        self.stopped.set()
        # A blocked accept does not notice its socket being closed.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(10)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self.stopped.is_set():
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(NET)
        with self._lock:
            self._open.add(sock)
        # Many tests have a client that disconnects or refuses the certificate.
        with contextlib.suppress(OSError, ValueError):
            if self._context is not None:
                wrapped = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                with self._lock:
                    self._open.symmetric_difference_update({sock, wrapped})
                sock = wrapped
                sock.do_handshake()
            asked = read_request(sock)
            with self._lock:
                self.asked.append(asked)
            self.handle(asked, Connection(sock, self))
        with self._lock:
            self._open.discard(sock)
        _finish(sock)


def _finish(sock: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        # Closed with bytes unread a socket sends RST, and the client may lose the answer.
        sock.shutdown(socket.SHUT_WR)
    sock.close()


def read_request(sock: socket.socket) -> Asked:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (piece := sock.recv(1)):
            raise ConnectionAbortedError
        head += piece
        if head == b"\x16":
            # The first byte of a TLS handshake; web servers answer like this.
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            raise ConnectionAbortedError
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    return Asked(method, target, {name.lower(): value.strip() for name, _, value in pairs})


class Origin(Server):
    """Answers by path, and by ``answer`` where none is for it; both may be changed at any time."""

    answer: Answer
    paths: dict[str, Answer]

    @property
    def url(self) -> str:
        return f"{self.base}/crds.tar.gz"

    def handle(self, asked: Asked, connection: Connection) -> None:
        self.paths.get(asked.path, self.answer)(asked, connection)


@contextlib.contextmanager
def serving(
    answer: Answer, *, directory: Path | None = None, certificate: Certificate = "good", **paths: Answer
) -> Iterator[Origin]:
    """Serve on a free port until the end of the block, which closes open connections.

    Args:
        answer: Answer to every request.
        directory: Directory for certificates: with one HTTPS, else HTTP.
        certificate: Kind of the certificate.
        paths: Answers to ``/<name>``.
    """
    context, ca_bundle = tls(directory, certificate) if directory else (None, "")
    origin = Origin(context=context, ca_pem=base64.b64decode(ca_bundle))
    origin.answer, origin.paths = answer, {f"/{name}": other for name, other in paths.items()}
    try:
        yield origin
    finally:
        origin.stop()


# ---- Answers.


def head(status: str = "200 OK", **headers: object) -> bytes:
    """The beginning of a response; a header of None is left out."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "Connection: close", "", ""]).encode("latin-1")


def says(body: bytes = b"", *, status: str = "200 OK", **headers: object) -> Answer:
    """Say this; ``content_length=...`` tells another length than the body has, None tells none."""
    whole = head(status, **{"content_length": len(body), **headers}) + body
    return lambda _, connection: connection.send(whole)


def tarball(
    body: bytes, *, etag: str | None = '"v1"', last_modified: str | None = "Mon, 02 Jan 2006 15:04:05 GMT"
) -> Answer:
    """Answer like a correct origin: 304 for known validators, 206 for a range."""

    def answer(asked: Asked, connection: Connection) -> None:
        validators = {"etag": etag, "last_modified": last_modified}
        if _is_known(asked.headers, etag, last_modified):
            connection.send(head("304 Not Modified", **validators))
            return
        found = re.fullmatch(r"bytes=(\d+)-", asked.headers.get("range", ""))
        if found and asked.headers.get("if-range") == etag:
            start = int(found[1])
            rest = {"content_range": f"bytes {start}-{len(body) - 1}/{len(body)}", **validators}
            connection.send(head("206 Partial Content", content_length=len(body) - start, **rest) + body[start:])
            return
        connection.send(head(content_length=len(body), content_type="application/gzip", **validators) + body)

    return answer


def _is_known(asked: dict[str, str], etag: str | None, last_modified: str | None) -> bool:
    # The date counts only where there is no tag (RFC 9110 13.2.2).
    if "if-none-match" in asked:
        return asked["if-none-match"] == etag
    return asked.get("if-modified-since", "") == last_modified


def redirects(to: str, status: str = "302 Found") -> Answer:
    return says(status=status, location=to)


def in_turn(*answers: Answer) -> Answer:
    """The first to the first request, and so on; the last one to all that follow."""
    left, lock = list(answers), threading.Lock()

    def answer(asked: Asked, connection: Connection) -> None:
        with lock:
            now = left.pop(0) if len(left) > 1 else left[0]
        now(asked, connection)

    return answer


def resets_after(body: bytes, count: int, **headers: object) -> Answer:
    """Say the length of a body, ``count`` bytes of it, and RST."""

    def answer(_: Asked, connection: Connection) -> None:
        connection.send(head(**{"content_length": len(body), **headers}) + body[:count])
        # RST discards bytes that the client has not read yet.
        wait_for(lambda: _is_read(connection.sock), what="the client has read what was sent")
        connection.reset()

    return answer


def _is_read(sock: socket.socket) -> bool:
    """Return whether the other end, on this machine too, has read all that was sent to it (/proc/net/tcp)."""
    ends = {f"{sock.getsockname()[1]:04X}", f"{sock.getpeername()[1]:04X}"}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # Columns: number, local address, remote address, state, bytes not yet acknowledged : not yet read.
    queues = [row[4] for row in rows if {row[1].rpartition(":")[2], row[2].rpartition(":")[2]} == ends]
    return bool(queues) and all(queue == "00000000:00000000" for queue in queues)


def cuts_after(body: bytes, count: int, **headers: object) -> Answer:
    """Say the length of a body, ``count`` bytes of it, and close."""
    return says(body[:count], **{"content_length": len(body), **headers})


def chunked(body: bytes, *, size: int = 1000, end: bytes = b"0\r\n\r\n", **headers: object) -> Answer:
    """Send in chunks; without ``end`` it is cut off."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    whole = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end
    return lambda _, connection: connection.send(head(transfer_encoding="chunked", **headers) + whole)


def drips(data: bytes, *, seconds: float) -> Answer:
    """Send byte by byte, with a pause between: the slow loris, of the headers if they are in ``data``."""

    def answer(_: Asked, connection: Connection) -> None:
        for byte in data:
            connection.send(bytes([byte]))
            connection.pause(seconds)

    return answer


def drips_body(body: bytes, *, seconds: float, **headers: object) -> Answer:
    def answer(asked: Asked, connection: Connection) -> None:
        connection.send(head(**{"content_length": len(body), **headers}))
        drips(body, seconds=seconds)(asked, connection)

    return answer


def silent(_: Asked, connection: Connection) -> None:
    """Never say anything."""
    connection.pause(NET)


def hangs_up(_: Asked, connection: Connection) -> None:
    """End without a word."""


def endless(_: Asked, connection: Connection) -> None:
    """A body of no length and no end that looks like gzip."""
    connection.send(head() + b"\x1f\x8b")
    while not connection.server.stopped.is_set():
        connection.send(bytes(65536))


# ---- The proxy.

_REFUSED: Final = head("407 Proxy Authentication Required", proxy_authenticate="Basic", content_length=0)


class Proxy(Server):
    """Forwards GETs and tunnels CONNECTs, all to one origin, for any requested host."""

    origin: Origin
    credentials: str
    refusal: bytes | None
    established: bytes

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.credentials + '@' if self.credentials else ''}127.0.0.1:{self.port}"

    def handle(self, asked: Asked, connection: Connection) -> None:
        wanted = "Basic " + base64.b64encode(self.credentials.encode()).decode()
        if self.credentials and asked.headers.get("proxy-authorization") != wanted:
            connection.send(_REFUSED)
            return
        if self.refusal is not None:
            connection.send(self.refusal)
            return
        with socket.create_connection(("127.0.0.1", self.origin.port), timeout=NET) as onward:
            if asked.method == "CONNECT":
                connection.sock.sendall(self.established)
                back = threading.Thread(target=_pump, args=(connection.sock, onward), daemon=True)
                back.start()
                _pump(onward, connection.sock)
                back.join(10)
                return
            path = "/" + asked.target.split("/", 3)[3]
            kept = {name: value for name, value in asked.headers.items() if not name.startswith("proxy-")}
            lines = [f"{asked.method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in kept.items()), "", ""]
            onward.sendall("\r\n".join(lines).encode("latin-1"))
            _pump(onward, connection.sock)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := source.recv(65536):
            sink.sendall(data)
    # After the other direction knows of the end: else it would wait for more data.
    with contextlib.suppress(OSError, ValueError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxying(
    origin: Origin,
    *,
    credentials: str = "",
    refusal: bytes | None = None,
    directory: Path | None = None,
    established: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n",
) -> Iterator[Proxy]:
    """Be a proxy before an origin.

    Args:
        origin: Target of all requests.
        credentials: Required ``user:password``; part of its ``url``.
        refusal: Response to send instead of forwarding.
        directory: Directory for certificates: with one the proxy uses TLS.
        established: Response to a granted CONNECT.
    """
    context, ca_bundle = tls(directory) if directory else (None, "")
    proxy = Proxy(context=context, ca_pem=base64.b64decode(ca_bundle))
    proxy.origin, proxy.credentials, proxy.refusal, proxy.established = origin, credentials, refusal, established
    try:
        yield proxy
    finally:
        proxy.stop()
