"""An API server on loopback that stores and patches CRDs, with scripted failures.

tests/e2e apply CRDs to a real kube-apiserver; this one is for failures between client and server.
"""

import contextlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import yaml

from fleethook.cluster.api_errors import APIError
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.strategic_merge_patch import strategic_merge
from tests.apiserver_rules import invalid, not_found, parse_path

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED = [
    {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
    {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "accepted"},
]


class Asked(NamedTuple):
    method: str
    name: str
    content_type: str
    query: dict[str, str]
    body: Any


Disturbance = Callable[[Asked, int], "tuple[int, Any] | str | None"]
"""Returns another answer: status and body, or "cut" for none. Gets the number of earlier requests of that kind."""


class ApiServer:
    """The stored CRDs, the requests, and the scripted failures."""

    def __init__(self) -> None:
        self.crds: dict[str, Any] = {}
        self.asked: list[Asked] = []
        self.disturb: Disturbance = lambda _asked, _times: None
        self.conditions: Any = ESTABLISHED
        self._times: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> tuple[int, Any] | str:
        with self._lock:
            self.asked.append(asked)
            times = self._times[asked.method, asked.name]
            self._times[asked.method, asked.name] += 1
            if (instead := self.disturb(asked, times)) is not None:
                return instead
            return self._stored(asked)

    def _stored(self, asked: Asked) -> tuple[int, Any]:
        stored = self.crds.get(asked.name)
        existed = stored is not None
        if asked.method == "PATCH":
            if asked.content_type == "application/apply-patch+yaml" and not asked.query.get("fieldManager"):
                text = "Required value: is required for apply patch"
                return _refuse(invalid("PatchOptions.meta.k8s.io", "", "fieldManager", text))
            if stored is None and asked.content_type != "application/apply-patch+yaml":
                return _refuse(not_found(parse_path(f"{CRDS}/{asked.name}")))
            former = stored or {"metadata": {"resourceVersion": "0"}}
            stored = strategic_merge(former, asked.body, MergeSchema())
            if stored is not former and "dryRun" not in asked.query:
                version = str(int(former["metadata"]["resourceVersion"]) + 1)
                stored = self.crds[asked.name] = {
                    **stored,
                    "metadata": {**stored["metadata"], "resourceVersion": version},
                }
        if stored is None:
            return _refuse(not_found(parse_path(f"{CRDS}/{asked.name}")))
        return 200 if existed else 201, {**stored, "status": {"conditions": self.conditions}}


def _refuse(error: APIError) -> tuple[int, Any]:
    return error.code, {"kind": "Status", "status": "Failure", "reason": error.reason, "message": error.message}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect before the response: some tests have them."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving() -> Iterator[tuple[ApiServer, str]]:
    """Serve until the end of the block; yields the server and its address."""
    api = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            split = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = {name: values[0] for name, values in parse_qs(split.query).items()}
            kind = self.headers.get("Content-Type", "")
            asked = Asked(self.command, split.path.rpartition("/")[2], kind, query, json.loads(body) if body else None)
            answer = api.answer(asked)
            if isinstance(answer, str):
                self.close_connection = True
                return
            status, document = answer
            text = document.encode() if isinstance(document, str) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(document, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = _answer  # noqa: N815 - their names in http.server

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def kubeconfig(directory: Path, address: str) -> Path:
    path = directory / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": address}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )  # fmt: skip
    return path
