"""An apiserver with the paths of kcp: objects of all logical clusters below /clusters/*, over HTTP on loopback.

Its answers are those of a real kcp, which `tests/conformance/kcp_paths.yaml` holds; `tests/conformance/test_kcp_paths.py`
compares them.
"""

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.watched_resources import DISPATCHING, WORKSPACES
from tests.apiserver_rules import check_review
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http

IDENTITY = "e0a313a3a541"
"""The identity of the APIExport ``tenancy.kcp.io``; real ones have 64 digits."""
COPIES = "/clusters/system:shard/api/v1/namespaces/default/configmaps/apiexport-identity-cache"
UNSERVED = (404, "404 page not found\n")
_KINDS = {one.plural: one.kind for one in DISPATCHING}
_PATH = re.compile(
    r"/clusters/(?P<cluster>[^/]+)(?P<base>/api/v1|/apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/[^/]+(?=/))?"
    r"/(?P<resource>[^/:]+)(?::(?P<identity>[^/]*))?(?:/(?P<name>[^/]+))?"
)


class KcpRequest(NamedTuple):
    method: str
    path: str
    user: str


class Kcp:
    """The objects of a kcp, and the requests that it received.

    Attributes:
        objects: The items of a list, by the path of the list without its cluster. A kcp serves no other resources.
        single: Other answers by their complete paths: objects, and lists of a cache server.
        is_root: Whether this is the root shard, which has the logical cluster root.
        refuses: Users whose lists over all clusters are refused, as kcp's RBAC has no opinion on those.
    """

    def __init__(self) -> None:
        self.port = 0
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.single: dict[str, dict[str, Any]] = {}
        self.refuses: set[str] = set()
        self.is_root = True
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

    def answer(self, path: str, user: str, *, verb: str = "list") -> tuple[int, Any]:
        """Return the status and the body of a GET: a text where kcp answers no JSON."""
        if path in self.single:
            return 200, self.single[path]
        if (parts := _PATH.fullmatch(path)) is None:
            return UNSERVED
        items = self.objects.get(f"{parts['base']}/{parts['resource']}")
        if path == COPIES:
            return self._read_copies(user)
        if parts["cluster"] == "*":
            return self._list_everywhere(parts, items, user, verb)
        # Only a logical cluster with an APIBinding has Workspaces, and a shard serves its own clusters.
        bound = self.is_root or (parts["cluster"], parts["resource"]) != ("root", WORKSPACES.plural)
        if items is None or not bound or parts["identity"] not in (None, IDENTITY):
            return UNSERVED
        return self._read(parts["cluster"], parts, items)

    def _read_copies(self, user: str) -> tuple[int, Any]:
        name = COPIES.rpartition("/")[2]
        if user in self.refuses:
            text = f'User "{user}" cannot get resource "configmaps" in API group "" in the namespace "default"'
            return 403, _status(403, "Forbidden", f'configmaps "{name}" is forbidden: {text}: access denied')
        copies = {"kind": "ConfigMap", "data": {WORKSPACES.export: IDENTITY}}
        return _not_found("configmaps", name) if self.is_root else (200, copies)

    def _list_everywhere(
        self, parts: re.Match[str], items: list[dict[str, Any]] | None, user: str, verb: str
    ) -> tuple[int, Any]:
        """Answer a request for all logical clusters."""
        resource, group = parts["resource"], parts["group"] or ""
        named = f"{resource}.{group}" if group else resource
        if parts["name"] and items is not None:
            text = f'get is not supported on resources of kind "{named}" in the `*` logical cluster'
            return 405, _status(405, "MethodNotAllowed", text)
        if user in self.refuses:
            text = f'User "{user}" cannot {verb} resource "{resource}" in API group "{group}" at the cluster scope'
            return 403, _status(403, "Forbidden", f"{named} is forbidden: {text}: access denied")
        if items is None or parts["identity"] != (IDENTITY if resource == WORKSPACES.plural else None):
            return UNSERVED
        return self._read("*", parts, items)

    def _read(self, cluster: str, parts: re.Match[str], items: list[dict[str, Any]]) -> tuple[int, Any]:
        """Answer about the objects of a resource: the list of all or one cluster, or an object."""
        resource, name, group = parts["resource"], parts["name"], parts["group"]
        here = [one for one in items if cluster in ("*", one["metadata"]["annotations"]["kcp.io/cluster"])]
        if not name:
            return 200, {"kind": f"{_KINDS[resource]}List", "metadata": {"resourceVersion": "1"}, "items": here}
        if (cluster, resource, name) == ("root", "apiexports", WORKSPACES.export) and self.is_root:
            return 200, {"kind": "APIExport", "status": {"identityHash": IDENTITY}}
        found = next((one for one in here if one["metadata"]["name"] == name), None)
        if found is None:
            return _not_found(f"{resource}.{group}" if group else resource, name)
        return 200, {"kind": _KINDS[resource], **found}


def _not_found(resource: str, name: str) -> tuple[int, dict[str, Any]]:
    return 404, _status(404, "NotFound", f'{resource} "{name}" not found')


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


@contextlib.contextmanager
def kcp_paths() -> Iterator[Kcp]:
    """Serve until the end of the context."""
    kcp = Kcp()

    def respond(request: HTTPRequest) -> HTTPAnswer | None:
        if request.method == "POST":
            try:
                check_review(request.path, request.read_json())
            except APIError as error:
                text = _status(error.code, error.reason, str(error)) if error.reason else UNSERVED[1]
                return HTTPAnswer(error.code, text)
        user = (request.headers["Authorization"] or "").removeprefix("Bearer ")
        watching = "watch" in request.query
        kcp.asked.append(KcpRequest("WATCH" if watching else "GET", request.path, user))
        code, body = kcp.answer(request.path, user, verb="watch" if watching else "list")
        if not watching or code != 200:
            return HTTPAnswer(code, body)
        request.begin_stream()
        kcp.stopping.wait()
        return None

    with serve_http(respond) as kcp.port:
        try:
            yield kcp
        finally:
            kcp.stopping.set()
