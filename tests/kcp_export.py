"""A kcp with one APIExport in the workspace ``p`` and its consumers, over HTTP on loopback.

It answers as the real one whose answers `tests/conformance/kcp_consumers.yaml` holds.
"""

import contextlib
import copy
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.http_server import HTTPAnswer, HTTPRequest, serve_http
from tests.kcp_paths import UNSERVED

Document = dict[str, Any]
FACTS = yaml.safe_load((Path(__file__).parent / "conformance" / "kcp_consumers.yaml").read_text())
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
EXPORTS = BINDINGS.replace("apibindings", "apiexports")
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = VALIDATING.replace("validating", "mutating")
CONFIG_MAPS = "/api/v1/configmaps"
CLAIMED = (VALIDATING, MUTATING, CONFIG_MAPS)
_KINDS = {CONFIG_MAPS: "ConfigMap", BINDINGS: "APIBinding"}
PROVIDER = "/clusters/root:p"
_BEHIND = "/services/apiexport/p/guard/clusters/"
_OBJECT = re.compile(r"(?P<collection>/api(?:s/[^/]+)?/v[^/]+(?:/namespaces/[^/]+)?/[^/]+)(?:/(?P<name>[^/]+))?")


def make_binding(cluster: str, *, name: str = "guard-3lhv4", uid: str = "", **states: str) -> Document:
    """Return the APIBinding of a workspace; ``states`` are those of claims, by plural, by default ``Accepted``."""
    binding: Document = copy.deepcopy(FACTS["binding"])
    binding["metadata"] |= {"name": name, "uid": uid or f"uid-{cluster}-{name}"}
    binding["metadata"]["annotations"] = {"kcp.io/cluster": cluster, "kcp.io/path": f"root:{cluster}"}
    claims = binding["spec"]["permissionClaims"]
    for one in claims:
        one["state"] = states.get(one["resource"], "Accepted")
    binding["spec"]["permissionClaims"] = [one for one in claims if one["state"]]
    accepted = [one["resource"] for one in claims if one["state"] == "Accepted"]
    applied = binding["status"]["appliedPermissionClaims"]
    binding["status"]["appliedPermissionClaims"] = [one for one in applied if one["resource"] in accepted]
    return binding


class KcpExport:
    """The objects by cluster, path of their collection, and name; the provider's cluster is ``p``.

    Attributes:
        asked: The method and the path of each request.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Document] = {("p", EXPORTS, "guard"): {"metadata": {"name": "guard"}}}
        self.asked: list[tuple[str, str]] = []
        self.port = 0
        self.stopping = False
        self._version = 100
        self._events: list[tuple[int, str, str, Document]] = []
        self.changed = threading.Condition()

    # Actions of consumers.

    def bind(self, cluster: str, **given: str) -> None:
        """Store an APIBinding of a workspace; with another state of a claim, its objects vanish from the export."""
        binding = make_binding(cluster, **given)
        with self.changed:
            before = self._accepts(cluster)
            self._keep(cluster, BINDINGS, binding)
            after = self._accepts(cluster)
            for (owner, collection, _), one in self.objects.items():
                if owner == cluster and (collection in before) != (collection in after):
                    self._note("ADDED" if collection in after else "DELETED", collection, one)

    def unbind(self, cluster: str, name: str = "guard-3lhv4") -> None:
        """Delete an APIBinding. kcp's garbage collector deletes the objects whose owners are all gone."""
        with self.changed:
            gone = self._remove(cluster, BINDINGS, name)["metadata"]["uid"]
            for (owner, collection, each), one in list(self.objects.items()):
                owners = one["metadata"].get("ownerReferences")
                if owner == cluster and owners and all(each["uid"] == gone for each in owners):
                    self._remove(cluster, collection, each)

    def edit(self, cluster: str, collection: str, name: str, change: Callable[[Document], Any]) -> None:
        """Change an object as an administrator of the workspace."""
        with self.changed:
            document = copy.deepcopy(self.objects[cluster, collection, name])
            change(document)
            self._keep(cluster, collection, document)

    def delete(self, cluster: str, collection: str, name: str) -> None:
        """Delete an object as an administrator of the workspace."""
        with self.changed:
            self._remove(cluster, collection, name)

    def find(self, cluster: str, collection: str = VALIDATING, name: str = "fleethook-guard") -> Document | None:
        """Return an object."""
        return self.objects.get((cluster, collection, name))

    # Answers of kcp.

    def _accepts(self, cluster: str) -> set[str]:
        bindings = [one for (owner, path, _), one in self.objects.items() if (owner, path) == (cluster, BINDINGS)]
        names = {each["resource"] for one in bindings for each in one["status"]["appliedPermissionClaims"]}
        return {BINDINGS} | {one for one in CLAIMED if one.rpartition("/")[2] in names}

    def _keep(self, cluster: str, collection: str, document: Document) -> Document:
        self._version += 1
        name = document["metadata"]["name"]
        former = self.objects.get((cluster, collection, name))
        metadata = {**document["metadata"], "resourceVersion": str(self._version)}
        metadata["uid"] = metadata.get("uid") or f"uid-{self._version}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), "kcp.io/cluster": cluster}
        kept = self.objects[cluster, collection, name] = {**document, "metadata": metadata}
        self._note("ADDED" if former is None else "MODIFIED", collection, kept)
        return kept

    def _remove(self, cluster: str, collection: str, name: str) -> Document:
        self._version += 1
        gone = self.objects.pop((cluster, collection, name))
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._note("DELETED", collection, gone)
        return gone

    def _note(self, kind: str, collection: str, document: Document) -> None:
        self._events.append((self._version, kind, collection, copy.deepcopy(document)))
        self.changed.notify_all()

    def list_events(self, collection: str, since: int) -> list[tuple[int, str, Document]]:
        """Return the later changes of the objects of a collection."""
        return [(at, kind, one) for at, kind, path, one in self._events if path == collection and at > since]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and the body of an answer."""
        with self.changed:
            self.asked.append((method, path))
            if path.endswith("/selfsubjectaccessreviews"):
                return 201, {**body, "status": {"allowed": True}}
            if path.startswith(_BEHIND):
                cluster, _, rest = path.removeprefix(_BEHIND).partition("/")
                return self._answer_behind(method, cluster, f"/{rest}", body)
            if path == f"{PROVIDER}/apis/apis.kcp.io/v1alpha1/apiexportendpointslices":
                return 200, self._list_slices()
            if not path.startswith(PROVIDER):
                return UNSERVED
            return self._answer_in("p", method, path.removeprefix(PROVIDER), body)

    def _list_slices(self) -> Document:
        bound = any(collection == BINDINGS for _, collection, _ in self.objects)
        urls = [{"url": f"http://127.0.0.1:{self.port}/services/apiexport/p/guard"}] if bound else []
        slice_ = {"metadata": {"name": "guard"}, "spec": {"export": {"name": "guard"}}, "status": {"endpoints": urls}}
        return {"kind": "APIExportEndpointSliceList", "items": [slice_]}

    def _answer_behind(self, method: str, cluster: str, path: str, body: Any) -> tuple[int, Any]:
        matched = _OBJECT.fullmatch(path)
        if matched is None or matched["collection"] not in (BINDINGS, *CLAIMED):
            return UNSERVED
        collection = matched["collection"]
        if cluster == "*":
            items = [
                one
                for (owner, place, _), one in self.objects.items()
                if place == collection and collection in self._accepts(owner)
            ]
            kind = f"{_KINDS.get(collection, '')}List"
            return 200, {"kind": kind, "metadata": {"resourceVersion": str(self._version)}, "items": items}
        if collection not in self._accepts(cluster):
            return _refuse("write_without_claim")
        return self._answer_in(cluster, method, path, body)

    def _answer_in(self, cluster: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        matched = _OBJECT.fullmatch(path)
        assert matched is not None, path
        collection, name = matched["collection"], matched["name"] or ""
        present = self.objects.get((cluster, collection, name or (body or {}).get("metadata", {}).get("name", "")))
        if method == "POST":
            return (201, self._keep(cluster, collection, body)) if present is None else _refuse("create_existing")
        if method == "GET" and not name:
            items = [one for (owner, place, _), one in self.objects.items() if (owner, place) == (cluster, collection)]
            return 200, {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items}
        if present is None:
            return _refuse("missing")
        if method == "DELETE":
            return 200, self._remove(cluster, collection, name)
        if method == "GET":
            return 200, present
        return self._replace(cluster, collection, present, body) if method == "PUT" else _refuse("patch_without_verb")

    def _replace(self, cluster: str, collection: str, present: Document, body: Document) -> tuple[int, Document]:
        version = body["metadata"].get("resourceVersion")
        if version == present["metadata"]["resourceVersion"]:
            return 200, self._keep(cluster, collection, body)
        return _refuse("replace_other_version" if version else "replace_without_version")


def _refuse(name: str) -> tuple[int, Document]:
    fact = FACTS["refusals"][name]
    return fact["status"], {"kind": "Status", "status": "Failure", "reason": fact["reason"], "message": fact["message"]}


def _watch(kcp: KcpExport, request: HTTPRequest) -> None:
    collection, since = "/" + request.path.split("/", 7)[-1], int(request.query["resourceVersion"])
    request.begin_stream()
    stream = request.handler.wfile
    with contextlib.suppress(ConnectionError):
        while True:
            with kcp.changed:
                while not kcp.stopping and not (events := kcp.list_events(collection, since)):
                    kcp.changed.wait()
                if kcp.stopping:
                    return
            for at, kind, one in events:
                stream.write(json.dumps({"type": kind, "object": one}).encode() + b"\n")
                since = max(since, at)
            stream.flush()


@contextlib.contextmanager
def kcp_export(directory: Path) -> Iterator[tuple[KcpExport, tuple[str, ...]]]:
    """Yield a kcp, and the options of commands that use its export."""
    kcp = KcpExport()

    def respond(request: HTTPRequest) -> HTTPAnswer | None:
        if "watch" in request.query:
            return _watch(kcp, request)
        return HTTPAnswer(*kcp.answer(request.method, request.path, request.read_json()))

    with serve_http(respond) as kcp.port:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "p",
            "clusters": [{"name": "p", "cluster": {"server": f"http://127.0.0.1:{kcp.port}{PROVIDER}"}}],
            "users": [{"name": "p", "user": {"token": "p"}}],
            "contexts": [{"name": "p", "context": {"cluster": "p", "user": "p"}}],
        }
        (directory / "provider.kubeconfig").write_text(yaml.safe_dump(config))
        try:
            yield kcp, ("--kubeconfig", str(directory / "provider.kubeconfig"), "--kcp-export", "guard")
        finally:
            with kcp.changed:
                kcp.stopping = True
                kcp.changed.notify_all()
