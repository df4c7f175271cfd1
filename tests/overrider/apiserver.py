"""An apiserver in memory, for the controller: list, watch, merge patch, JSON patch, dry run, generations, webhooks.

Its answers follow kube-apiserver: 404 as text for a resource that is not served (k8s.io/apiserver, pkg/server/mux), and
writes of an object and of its status apart (k8s.io/apiextensions-apiserver, pkg/registry/customresource: strategy.go,
status_strategy.go).

The webhook is the real one. The server passes each written workload through a list of functions, with which a test can
prune fields, add defaults, or act as another webhook that reverts the render.
"""

import asyncio
import contextlib
import copy
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from app.kube.errors import APIError
from app.model.gvk import parse_api_version
from app.overrider.plan_cache import PlanCache
from app.overrider.workload_admission import mutate_workload
from app.patch import apply, merge_patch
from app.store import Store
from app.store.sources.kubernetes.resources import RESOURCES, WORKLOADS
from tests.apiserver_rules import check_event
from tests.builders import request as review_of

Document = dict[str, Any]
Admit = Callable[[Document], Document]

MAX_ANNOTATIONS = 256 * 1024
_NAMESPACE = re.compile(r"/namespaces/[^/]+(?=/)")
PLURALS = {resource.kind: resource for resource in (*RESOURCES, *WORKLOADS)}


class Apiserver:
    """The objects, their watchers, and counts of requests.

    Attributes:
        writes: The number of writes of each object, without dry runs and statuses.
        statuses: The number of writes of each status.
        dry_runs: The number of dry runs for each object.
        events: The events, as reason and message.
        webhook: Whether the workload webhook is registered.
        after: Functions that change a written workload after the webhook and before it is stored.
        stored: Functions that are called with the path of each written workload, as other controllers are.
        refuse: Returns the error for a request, None to answer it.
        late: Whether answers arrive after the events of their writes.
        silent: Plurals whose watchers receive no events.
        drops: Fields of statuses that the server does not store.
        served: The served version of each plural, for kinds with several versions.
    """

    def __init__(self, objects: Store, plans: PlanCache) -> None:
        self.writes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.dry_runs: Counter[str] = Counter()
        self.events: list[tuple[str, str]] = []
        self.webhook = True
        self.after: list[Admit] = []
        self.stored: list[Callable[[str], None]] = []
        self.refuse: Callable[[str, str, bool], APIError | None] = lambda _method, _path, _dry: None
        self.late = False
        self.silent: set[str] = set()
        self.drops: set[str] = set()
        self.served = {"yurtappsets": "v1alpha1", "nodepools": "v1alpha1"}
        self._objects, self._plans = objects, plans
        self._documents: dict[str, Document] = {}
        self._watchers: list[tuple[str, str, asyncio.Queue[bytes]]] = []
        self._version = 1

    # Methods for tests.

    def put(self, document: Document, *, review: bool = False) -> str:
        """Store a complete object and return its path."""
        metadata = document["metadata"]
        path = path_of(document)
        before = self._documents.get(path)
        after = copy.deepcopy(document)
        if before is not None:
            metadata = after["metadata"] = {**metadata, "resourceVersion": before["metadata"]["resourceVersion"]}
            after["metadata"]["generation"] = before["metadata"]["generation"]
        if review:
            after = self._admitted(before, after)
        self._store(path, before, after)
        return path

    def edit(self, path: str, patch: Document, *, review: bool = True) -> None:
        """Merge-patch an object as another client."""
        before = self._documents[path]
        after = merge_patch(before, patch)
        self._store(path, before, self._admitted(before, after) if review and is_workload(path) else after)

    def delete(self, path: str) -> None:
        document = self._documents.pop(path)
        self._version += 1
        document = merge_patch(document, {"metadata": {"resourceVersion": str(self._version)}})
        self._tell(path, "DELETED", document)

    def __getitem__(self, path: str) -> Document:
        return copy.deepcopy(self._documents[path])

    # Requests of the controller.

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "",
        timeout: float = 30,  # noqa: ARG002, ASYNC109 - as the connection's
    ) -> bytes:
        await asyncio.sleep(0)
        path, dry = unquote(path), bool(query and query.get("dryRun"))
        if (error := self.refuse(method, path, dry)) is not None:
            raise error
        answer = self._answer(method, path, body, query=query, dry=dry, json_patch="json-patch" in content_type)
        for _ in range(20 if self.late else 0):
            await asyncio.sleep(0)
        return json.dumps(answer).encode()

    def _answer(
        self, method: str, path: str, body: Any, *, query: Mapping[str, str] | None, dry: bool, json_patch: bool
    ) -> Document:
        if method == "POST":
            check_event(path, body)
            self.events.append((body["reason"], body["message"]))
            return {}
        if path.endswith("/events") or "/events/" in path:
            return {}
        if method == "GET" and path in self._documents:
            return self[path]
        if method == "GET":
            return self._list(path, query or {})
        return self._patch(path, body, dry=dry, json_patch=json_patch)

    def _check_served(self, path: str) -> None:
        plural = path.rsplit("/", 1)[-1]
        if not any(resource.plural == plural for resource in PLURALS.values()):
            # The path of an object.
            raise APIError(404, "NotFound", f'"{plural}" not found')
        if self.served.get(plural, version := path.split("/")[3]) != version:
            raise APIError(404, "", "404 page not found")

    def _list(self, path: str, query: Mapping[str, str]) -> Document:
        self._check_served(path)
        label = query.get("labelSelector", "")
        items = [document for key, document in self._documents.items() if is_listed(key, document, path, label)]
        for field, _, value in (term.partition("=") for term in query.get("fieldSelector", "").split(",") if term):
            member, name = field.split(".")
            items = [one for one in items if one[member].get(name) == value]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _patch(self, path: str, body: Any, *, dry: bool, json_patch: bool) -> Document:
        status = path.endswith("/status")
        path = path.removesuffix("/status")
        before = self._documents.get(path)
        if before is None:
            raise APIError(404, "NotFound", f'"{path.rpartition("/")[2]}" not found')
        after = apply(before, body) if json_patch else merge_patch(before, body)
        if after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise APIError(409, "Conflict", "the object has been modified")
        if is_workload(path):
            after = self._admitted(before, after)
        sizes = (len(f"{name}{value}".encode()) for name, value in (after["metadata"].get("annotations") or {}).items())
        if sum(sizes) > MAX_ANNOTATIONS:
            text = f"metadata.annotations: Too long: may not be more than {MAX_ANNOTATIONS} bytes"
            raise APIError(422, "Invalid", text)
        if status:
            kept = {name: value for name, value in after["status"].items() if name not in self.drops}
            after = {**before, "status": kept}
        else:
            after = {**{name: value for name, value in after.items() if name != "status"}, **_status_of(before)}
        if dry:
            self.dry_runs[path] += 1
            return copy.deepcopy(after)
        (self.statuses if status else self.writes)[path] += 1
        self._store(path, before, after)
        if is_workload(path):
            for other in self.stored:
                asyncio.get_running_loop().call_soon(other, path)
        return self[path]

    def _admitted(self, before: Document | None, after: Document) -> Document:
        if self.webhook:
            operation = "CREATE" if before is None else "UPDATE"
            answer = mutate_workload(review_of(after, operation, before), store=self._objects, plans=self._plans)
            if not answer.allowed:
                raise APIError(403, "Forbidden", answer.message)
            after = apply(after, answer.patch)
        for change in self.after:
            after = change(copy.deepcopy(after))
        return after

    def _store(self, path: str, before: Document | None, after: Document) -> None:
        if before is not None and before == after:
            return
        self._version += 1
        generation = before["metadata"]["generation"] if before else after["metadata"].get("generation", 1)
        without_meta = [
            {key: value for key, value in one.items() if key not in ("metadata", "status")}
            for one in (before or {}, after)
        ]
        if before is not None and without_meta[0] != without_meta[1]:
            generation += 1
        metadata = {**after["metadata"], "resourceVersion": str(self._version), "generation": generation}
        stored = {**after, "metadata": metadata}
        self._documents[path] = stored
        self._tell(path, "ADDED" if before is None else "MODIFIED", stored)

    def _tell(self, path: str, kind: str, document: Document) -> None:
        line = json.dumps({"type": kind, "object": document}).encode()
        for watched, label, watcher in self._watchers:
            if is_listed(path, document, watched, label) and watched.rpartition("/")[2] not in self.silent:
                watcher.put_nowait(line)

    @contextlib.asynccontextmanager
    async def lines(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        idle: float,  # noqa: ARG002 - as the connection's
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._check_served(path)
        watcher: asyncio.Queue[bytes] = asyncio.Queue()
        label = query.get("labelSelector", "")
        entry = (path, label, watcher)
        self._watchers.append(entry)
        for known, document in self._documents.items():
            # Changes between the list and this watch.
            is_new = int(document["metadata"]["resourceVersion"]) > int(query["resourceVersion"])
            if is_new and is_listed(known, document, path, label):
                watcher.put_nowait(json.dumps({"type": "MODIFIED", "object": document}).encode())

        async def each() -> AsyncIterator[bytes]:
            while True:
                yield await watcher.get()

        try:
            yield each()
        finally:
            self._watchers.remove(entry)


def path_of(document: Document) -> str:
    resource, metadata = PLURALS[document["kind"]], document["metadata"]
    resource = resource._replace(version=parse_api_version(document["apiVersion"])[1])
    return resource.in_namespace(metadata.get("namespace", ""), metadata["name"])


def is_listed(path: str, document: Document, listed: str, label: str) -> bool:
    """Return whether a list or watch of a path, of objects with a label, has an object."""
    collection = path.rpartition("/")[0]
    return listed in (collection, _NAMESPACE.sub("", collection)) and (
        not label or label in document["metadata"].get("labels", {})
    )


def _status_of(document: Document) -> Document:
    return {"status": document["status"]} if "status" in document else {}


def is_workload(path: str) -> bool:
    return "/deployments/" in path or "/statefulsets/" in path
