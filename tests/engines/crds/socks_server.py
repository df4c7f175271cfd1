"""A SOCKS5 proxy on loopback (RFC 1928, RFC 1929) that connects to one origin, or misbehaves at a given stage.

with serving(tarball(data)) as origin, socks_proxying(origin) as proxy:
    download(Source("http://crds.example.com/x", proxy_url=proxy.url("socks5h")), into)
    assert proxy.wanted == ["crds.example.com:80"]
"""

import contextlib
import ipaddress
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Literal

from tests.engines.crds.origin import Origin
from tests.hook_server import resets
from tests.waiting import NET

Stage = Literal["greeting", "credentials", "request"]
Fault = Literal["", "hangs", "cuts", "resets", "drips", "garbage"]


class Socks(socketserver.ThreadingTCPServer):
    daemon_threads = True
    # A hanging one is let go by `stopped`.
    block_on_close = True

    def __init__(self, origin: Origin, *, credentials: tuple[bytes, bytes] | None, fault: Fault, at: Stage) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = origin
        self.credentials = credentials
        self.fault, self.at = fault, at
        self.replies: dict[str, int] = {}
        """What an address is answered with instead of success (RFC 1928 6)."""
        self.connections = 0
        self.methods: list[bytes] = []
        self.wanted: list[str] = []
        self.stages: list[Stage] = []
        self.pause = 0.4
        """Seconds between the bytes of one that drips."""
        self.stopped = threading.Event()

    def url(self, scheme: str = "socks5", userinfo: str = "") -> str:
        return f"{scheme}://{userinfo and userinfo + '@'}127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: tests have clients that disconnect."""


class _Handler(socketserver.BaseRequestHandler):
    server: Socks

    def handle(self) -> None:
        self.request.settimeout(NET)
        self.server.connections += 1
        with contextlib.suppress(ConnectionError):
            self._greet()
            host, port = self._request()
            self.server.wanted.append(f"{host}:{port}")
            self._reply("request", b"\x05" + bytes([self.server.replies.get(host, 0)]) + b"\0\x01" + bytes(6))
            if host not in self.server.replies:
                self._forward()

    def _greet(self) -> None:
        _, count = self._read(2)
        methods = self._read(count)
        self.server.methods.append(methods)
        method = b"\x02" if self.server.credentials else b"\0"
        self._reply("greeting", b"\x05" + (method if method in methods else b"\xff"))
        if method not in methods:
            raise ConnectionAbortedError
        if self.server.credentials:
            self._check()

    def _check(self) -> None:
        _, count = self._read(2)
        user = self._read(count)
        password = self._read(self._read(1)[0])
        right = (user, password) == self.server.credentials
        self._reply("credentials", b"\x01" + (b"\0" if right else b"\x01"))
        if not right:
            raise ConnectionAbortedError

    def _request(self) -> tuple[str, int]:
        head = self._read(4)
        assert head[:3] == b"\x05\x01\x00"
        match head[3]:
            case 1:
                host = str(ipaddress.IPv4Address(self._read(4)))
            case 4:
                host = str(ipaddress.IPv6Address(self._read(16)))
            case _:
                host = self._read(self._read(1)[0]).decode("ascii")
        return host, int.from_bytes(self._read(2), "big")

    def _reply(self, stage: Stage, data: bytes) -> None:
        self.server.stages.append(stage)
        match self.server.fault if stage == self.server.at else "":
            case "hangs":
                self.server.stopped.wait(NET)
                raise ConnectionAbortedError
            case "cuts":
                self.request.sendall(data[:1])
                raise ConnectionAbortedError
            case "resets":
                resets(self.request)
                self.request.close()
                raise ConnectionAbortedError
            case "drips":
                for byte in data:
                    self.request.sendall(bytes([byte]))
                    self.server.stopped.wait(self.server.pause)
            case "garbage":
                self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                raise ConnectionAbortedError
            case _:
                self.request.sendall(data)

    def _forward(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.origin.port), timeout=NET) as onward:
            there = threading.Thread(target=_pump, args=(self.request, onward), daemon=True)
            there.start()
            _pump(onward, self.request)
            there.join(10)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            if not (piece := self.request.recv(count - len(data))):
                raise ConnectionAbortedError
            data += piece
        return data


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def socks_proxying(
    origin: Origin, *, credentials: tuple[bytes, bytes] | None = None, fault: Fault = "", at: Stage = "greeting"
) -> Iterator[Socks]:
    """Be a SOCKS proxy before an origin.

    Args:
        origin: Target of all connections.
        credentials: Required user and password.
        fault: Misbehaviour instead of a reply.
        at: Stage of the fault.
    """
    with Socks(origin, credentials=credentials, fault=fault, at=at) as proxy:
        serving = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield proxy
        finally:
            proxy.stopped.set()
            proxy.shutdown()
            serving.join(10)
