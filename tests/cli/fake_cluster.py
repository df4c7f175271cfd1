"""An apiserver that answers list requests, and counts them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from fleethook.cli.inputs.objects_with_changes import select_dispatching
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_SHARD
from fleethook.cluster.kubernetes.watched_resources import APIEXPORTS, CACHED, DISPATCHING, WORKSPACES
from tests.apiserver_rules import already_exists, check_created, parse_path, unserved
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http

SERVED = {
    *(one.path for one in select_dispatching(kcp=False)),
    *(f"/clusters/*{one.path}{':1' if one.export else ''}" for one in DISPATCHING),
    *(f"{EVERY_SHARD}{one.path}" for one in CACHED),
}
"""The paths of kube-apiserver and of a kcp, whose APIExport ``tenancy.kcp.io`` has the identity 1 (`tests.kcp_paths`)."""
_CREATABLE = {"deployments": ("apps/v1", "Deployment"), "statefulsets": ("apps/v1", "StatefulSet")}


class Cluster:
    """An apiserver that lists one object per page.

    Attributes:
        lists: Objects by the path of their list. Of other paths, those of built-in resources and of a kcp are empty, and
            no others are served.
        unserved: Paths that are not served.
        queries: The last query of each path.
        requests: Method and path of each request.
        forbidden: Parts of paths that the user has no right to read.
        expired: Paths whose continue token has expired.
        expired_token: The token with which an expired list goes on, once.
        documents: Further answers by their paths.
        created: Path, query and object of each creation.
        refused: The answers to the next creations; all others are accepted.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.unserved: tuple[str, ...] = ()
        self.queries: dict[str, dict[str, str]] = {}
        self.requests: list[tuple[str, str]] = []
        self.forbidden: tuple[str, ...] = ()
        self.expired: tuple[str, ...] = ()
        self.expired_token = ""
        self.documents: dict[str, Any] = {}
        self.created: list[tuple[str, str, dict[str, Any]]] = []
        self.refused: list[tuple[int, Any]] = []

    def answer(self, url: str) -> tuple[int, Any]:
        path, query = urlsplit(url).path, {name: one[0] for name, one in parse_qs(urlsplit(url).query).items()}
        self.queries[path] = query
        for one in self.forbidden:
            if one in path:
                return 403, {"kind": "Status", "reason": "Forbidden", "message": f"{one} is forbidden"}
        if path == f"/clusters/root{APIEXPORTS.path}/{WORKSPACES.export}":
            return 200, {"kind": "APIExport", "status": {"identityHash": "1"}}
        if path in self.documents:
            return 200, self.documents[path]
        if path in self.unserved or (path not in self.lists and path not in SERVED):
            return _refuse(unserved(path))
        if path in self.expired and "continue" in query:
            text = "The provided continue parameter is too old to display a consistent list result."
            code, body = _refuse(APIError(410, "Expired", text))
            if query["continue"] != self.expired_token:
                return code, {**body, "metadata": {"continue": self.expired_token}}
        at, items = int(query.get("continue", "0")), self.lists.get(path, [])
        end = at + 1 if "limit" in query else len(items)
        further = {"continue": str(end) if end < len(items) else "", "resourceVersion": "1"}
        # The items of a list have neither apiVersion nor kind.
        page = [
            {name: value for name, value in one.items() if name not in ("apiVersion", "kind")} for one in items[at:end]
        ]
        kind = f"{items[0]['kind']}List" if items else "List"
        return 200, {"kind": kind, "metadata": further, "items": page}

    def create(self, path: str, body: Any) -> tuple[int, Any]:
        """Return the answer to a creation of a workload."""
        try:
            check_created(path, body, _CREATABLE)
        except APIError as error:
            return _refuse(error)
        base, _, rest = path.partition("/namespaces/")
        namespace, _, plural = rest.partition("/")
        names = [one["metadata"] for one in self.lists.get(f"{base}/{plural}", [])]
        if any((one.get("namespace"), one["name"]) == (namespace, body["metadata"].get("name")) for one in names):
            return _refuse(already_exists(parse_path(path), body["metadata"]["name"]))
        return 201, body


def _refuse(error: APIError) -> tuple[int, Any]:
    if not error.reason:
        return error.code, f"{error.message}\n"
    return error.code, {"kind": "Status", "status": "Failure", "reason": error.reason, "message": error.message}


@contextlib.contextmanager
def serve_cluster(directory: Path) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    """Yield a cluster, and the options with which a command reads it; its context has the namespace ``team``."""
    held = Cluster()

    def respond(request: HTTPRequest) -> HTTPAnswer:
        if request.method == "GET":
            held.requests.append((request.method, request.path))
            return HTTPAnswer(*held.answer(request.target))
        body = request.read_json()
        held.created.append((request.path, urlsplit(request.target).query, body))
        return HTTPAnswer(*(held.refused.pop() if held.refused else held.create(request.path, body)))

    with serve_http(respond) as port:
        named = {
            "clusters": [{"name": "right", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "user", "user": {"token": "t"}}],
            "contexts": [{"name": "right", "context": {"cluster": "right", "user": "user", "namespace": "team"}}],
        }
        config = directory / "kubeconfig"
        config.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **named}))
        yield held, ("--kubeconfig", str(config), "--context", "right")
