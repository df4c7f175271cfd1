"""An apiserver in memory, for the controller, with the webhook.

The webhook is the real one. The server passes each written workload through a list of functions, with which a test can
prune fields, add defaults, or act as another webhook that reverts the render.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.watched_resources import RESOURCES, WORKLOADS
from fleethook.cluster.store import Store
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.model.gvk import parse_api_version
from fleethook.patch import apply, merge_patch
from tests.apiserver_rules import parse_path
from tests.builders import mutate_workload
from tests.builders import request as review_of
from tests.cluster.object_server import Document, ObjectServer

Admit = Callable[[Document], Document]

WORKLOAD_KINDS = {resource.kind for resource in WORKLOADS}
PLURALS = {resource.kind: resource for resource in (*RESOURCES, *WORKLOADS)}


class Apiserver(ObjectServer):
    """The objects, their watchers, and counts of requests.

    Attributes:
        writes: The number of writes of each object, without statuses.
        statuses: The number of writes of each status.
        webhook: Whether the workload webhook is registered.
        after: Functions that change a written workload after the webhook and before it is stored.
        stored: Functions that are called with the path of each written workload, as other controllers are.
        refuse: Returns the error for a request, None to answer it.
        late: Whether answers arrive after the events of their writes.
        held: Writes of statuses wait for this event; None if they are answered at once.
        silent: Plurals whose watchers receive no events.
        drops: Fields of statuses that the server does not store.
        served: The served version of each plural, for kinds with several versions.
    """

    def __init__(self, objects: Store, plans: PlanCache) -> None:
        super().__init__()
        self.admit = self._review
        self.is_served = self._serves
        self.writes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.webhook = True
        self.after: list[Admit] = []
        self.stored: list[Callable[[str], None]] = []
        self.refuse: Callable[[str, str], APIError | None] = lambda _method, _path: None
        self.late = False
        self.held: asyncio.Event | None = None
        self.silent: set[str] = set()
        self.drops: set[str] = set()
        self.served = {"yurtappsets": "v1alpha1", "nodepools": "v1alpha1"}
        self._objects, self._plans = objects, plans

    # Methods for tests.

    @property
    def events(self) -> list[tuple[str, str]]:
        """The events, as reason and message."""
        return [(one["reason"], one["message"]) for one in self.objects.values() if one["kind"] == "Event"]

    def put(self, document: Document, *, review: bool = False) -> str:
        """Store a complete object and return its path."""
        path = path_of(document)
        self.store(path, self._review(self.objects.get(path), copy.deepcopy(document)) if review else document)
        return path

    def edit(self, path: str, patch: Document, *, review: bool = True) -> None:
        """Merge-patch an object as another client."""
        before = self.objects[path]
        after = merge_patch(before, patch)
        self.store(path, self._review(before, after) if review else after)

    def delete(self, path: str) -> None:
        self.remove(path)

    def __getitem__(self, path: str) -> Document:
        return copy.deepcopy(self.objects[path])

    def _serves(self, path: str) -> bool:
        at = parse_path(path)
        known = at.plural == "events" or any(one.plural == at.plural for one in PLURALS.values())
        return known and self.served.get(at.plural, at.version) == at.version

    # Requests of the controller.

    def answer(self, method: str, path: str, *, query: Mapping[str, str], body: Any, content_type: str) -> Any:
        path = unquote(path)
        if (error := self.refuse(method, path)) is not None:
            raise error
        if path.endswith("/status"):
            kept = {name: value for name, value in body["status"].items() if name not in self.drops}
            body = {**body, "status": kept}
        found = super().answer(method, path, query=query, body=body, content_type=content_type)
        if method == "PATCH" and "/events/" not in path:
            self._count(path)
        return found

    def _count(self, path: str) -> None:
        counts = self.statuses if path.endswith("/status") else self.writes
        counts[path.removesuffix("/status")] += 1
        if is_workload(path):
            for other in self.stored:
                asyncio.get_running_loop().call_soon(other, path)

    async def json(self, method: str, path: str, **rest: Any) -> Any:
        if self.held is not None and path.endswith("/status"):
            await self.held.wait()
        found = await super().json(method, path, **rest)
        for _ in range(20 if self.late else 0):
            await asyncio.sleep(0)
        return found

    def _review(self, before: Document | None, after: Document) -> Document:
        if after["kind"] not in WORKLOAD_KINDS:
            return after
        if self.webhook:
            operation = "CREATE" if before is None else "UPDATE"
            answer = mutate_workload(review_of(after, operation, before), store=self._objects, plans=self._plans)
            if not answer.allowed:
                raise APIError(403, "Forbidden", answer.message)
            after = apply(after, answer.patch)
        for change in self.after:
            after = change(copy.deepcopy(after))
        return after

    def _notify(self, kind: str, place: str, document: Document) -> None:
        if parse_path(place).plural not in self.silent:
            super()._notify(kind, place, document)


def path_of(document: Document) -> str:
    resource, metadata = PLURALS[document["kind"]], document["metadata"]
    resource = resource._replace(version=parse_api_version(document["apiVersion"])[1])
    return resource.in_namespace(metadata.get("namespace", ""), metadata["name"])


def is_workload(path: str) -> bool:
    return "/deployments/" in path or "/statefulsets/" in path
