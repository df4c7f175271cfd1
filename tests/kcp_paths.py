"""An apiserver with the paths of kcp: objects of all logical clusters below /clusters/*, over HTTP on loopback."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import yaml


class KcpRequest(NamedTuple):
    method: str
    path: str
    user: str


class Kcp:
    """The objects of a kcp, and the requests that it received.

    Attributes:
        objects: The items of a list, by the path of the list without its cluster.
        single: Objects by their complete paths.
        refuses: Users whose lists over all clusters are refused, as kcp's RBAC has no opinion on those.
    """

    def __init__(self) -> None:
        self.port = 0
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.single: dict[str, dict[str, Any]] = {}
        self.refuses: set[str] = set()
        self.asked: list[KcpRequest] = []
        self.stopping = threading.Event()

    def kubeconfig(self, directory: Path) -> Path:
        """Write a kubeconfig as kcp does, with the contexts root and shard-base; root is current."""
        path = directory / "admin.kubeconfig"
        url = f"http://127.0.0.1:{self.port}"
        clusters = [
            {"name": name, "cluster": {"server": server}}
            for name, server in (("root", f"{url}/clusters/root"), ("base", url))
        ]
        users = [{"name": name, "user": {"token": name}} for name in ("kcp-admin", "shard-admin")]
        contexts = [
            {"name": "root", "context": {"cluster": "root", "user": "kcp-admin"}},
            {"name": "shard-base", "context": {"cluster": "base", "user": "shard-admin"}},
        ]
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "root",
                    "clusters": clusters,
                    "users": users,
                    "contexts": contexts,
                }
            )
        )
        return path

    def answer(self, path: str, user: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of a GET that is no watch."""
        if path in self.single:
            return 200, self.single[path]
        if not path.startswith("/clusters/*/"):
            return 404, _status(404, "NotFound", f'"{path.rpartition("/")[2]}" not found')
        if user in self.refuses:
            return 403, _status(403, "Forbidden", f"{user} cannot list at the cluster scope")
        found = self.objects.get(path.removeprefix("/clusters/*"))
        if found is None:
            return 404, {"kind": "Status"}
        return 200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": found}


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        kcp, parts = self.server.kcp, urlsplit(self.path)
        user = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        watching = "watch" in parse_qs(parts.query)
        kcp.asked.append(KcpRequest("WATCH" if watching else "GET", parts.path, user))
        if watching:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.flush()
            kcp.stopping.wait()
            self.close_connection = True
            return
        code, body = kcp.answer(parts.path, user)
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kcp: Kcp) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kcp = kcp


@contextlib.contextmanager
def kcp_paths() -> Iterator[Kcp]:
    """Serve until the end of the context."""
    kcp = Kcp()
    with _Server(kcp) as server:
        kcp.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield kcp
        finally:
            kcp.stopping.set()
            server.shutdown()
            thread.join()
