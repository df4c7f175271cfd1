"""The workloads of node pools on an apiserver: followed, looked at, and touched so that they are rendered."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from app.control.pace import Pace
from app.kube.connection import MERGE_PATCH, Connection
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSONObject
from app.model.openyurt import TRIGGER_ANNOTATION
from app.overrider.assess import WORKLOAD_INDEXES, Assessment, Binding, assess, binding_of, hash_of
from app.overrider.freshness import trigger
from app.overrider.plans import PlanCache
from app.store import ObjectKey, Store, Stored, StoreView
from app.store.narrow import Narrow
from app.store.sources.kubernetes.resources import WORKLOADS, WatchedResource
from app.store.sources.kubernetes.source import KubernetesSource
from app.store.sources.kubernetes.wire import decode_page

_PAGE: Final = "500"
_GONE: Final = 404


class Limits(NamedTuple):
    """How fast workloads are touched."""

    per_second: float = 50.0
    """In the long run."""
    at_once: int = 10
    """At a time."""


class Change(NamedTuple):
    """A workload that changed."""

    binding: Binding
    key: ObjectKey
    suspect: bool
    """Whether it is not as it should be."""
    rendered: bool
    """Whether it carries a hash, or did before."""
    other_hash: bool
    """Whether it is new, is gone, or carries another hash than before."""


class Workloads:
    """What is known of the workloads, and what can be done about one.

    Attributes:
        touched: How many were touched.
        failed: How many are not as they should be after that, or could not be touched.
    """

    def __init__(
        self,
        connection: Connection,
        objects: StoreView,
        plans: PlanCache,
        *,
        limits: Limits,
        absent_seconds: float,
        every_cluster: bool,
        now: Callable[[], datetime],
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            connection: To the apiserver.
            objects: Overriders, subjects and node pools.
            plans: What was compiled from them.
            limits: How fast workloads are touched.
            absent_seconds: How often to ask for a resource that is not served.
            every_cluster: Whether the server is kcp's, and all logical clusters are meant.
            now: The time.
        """
        self.touched = 0
        self.failed = 0
        self._connection: Final = connection
        self._objects: Final = objects
        self._plans: Final = plans
        self._now: Final = now
        self._store: Final = Store(WORKLOAD_INDEXES.values())
        self.source: Final = KubernetesSource(
            WORKLOADS, connection, self._store, absent_seconds=absent_seconds, every_cluster=every_cluster
        )
        self._pace: Final = Pace(limits.per_second, burst=limits.at_once)
        self._slots: Final = asyncio.Semaphore(limits.at_once)
        # What the last look at a workload said; all of it is found again by looking again.
        self._suspects: Final[set[ObjectKey]] = set()

    def subscribe(self, told: Callable[[Change], None]) -> Callable[[], None]:
        """Have ``told`` told of each change of a workload that an overrider can apply to; return what ends that."""

        def changed(key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
            kept: Narrow | None = before if after is None else self.get(key)
            # At the first reading hashes have to do: to plan for each workload there and then would hold up reviews.
            if after is None or not self.source.synced or self._assess(key, after).as_wanted:
                self._suspects.discard(key)
            else:
                self._suspects.add(key)
            binding = None if kept is None else binding_of(kept, key.cluster)
            if binding is not None:
                hashes = {hash_of(one) for one in (before, kept) if one is not None}
                other = before is None or after is None or len(hashes) > 1
                told(Change(binding, key, key in self._suspects, rendered=bool(hashes - {""}), other_hash=other))

        return self._store.subscribe(changed)

    def get(self, key: ObjectKey) -> Narrow | None:
        """Return what is kept of a workload."""
        kept: Narrow | None = self._store.get(*key)
        return kept

    def suspect(self, key: ObjectKey) -> bool:
        """Return whether a workload was found to be other than it should be, by its last look."""
        return key in self._suspects

    def of(self, binding: Binding) -> list[ObjectKey]:
        """Return the workloads of a subject."""
        return [
            ObjectKey(binding.cluster, index.group_kind, workload.namespace, workload.name)
            for index in WORKLOAD_INDEXES.values()
            for workload in self._store.find(index, binding)
        ]

    def rendered_bindings(self) -> Iterator[Binding]:
        """Yield the subjects of workloads that were rendered."""
        for index in WORKLOAD_INDEXES.values():
            for key in self._store.keys(index.group_kind):
                workload = self.get(key)
                if workload is None or not hash_of(workload):
                    continue
                if (binding := binding_of(workload, key.cluster)) is not None:
                    yield binding

    def _assess(self, key: ObjectKey, workload: JSONObject) -> Assessment:
        return assess(workload, kind=key.group_kind.kind, store=self._objects, plans=self._plans)

    async def look_at_all(self) -> None:
        """Look at every workload as the apiserver holds it; raises APIError, UnreachableError."""
        for resource in WORKLOADS:
            token: str | None = ""
            while token is not None:
                token = await self._look_at_page(resource, token)

    async def _look_at_page(self, resource: WatchedResource, token: str) -> str | None:
        query = {"limit": _PAGE, "labelSelector": resource.selector, **({"continue": token} if token else {})}
        try:
            page = decode_page(
                await self._connection.request("GET", self.source.everywhere + resource.path, query=query)
            )
        except APIError as error:
            if error.code == _GONE:
                return None  # Not served; the informer asks again.
            raise
        for item in page.items:
            # To plan for one may take a millisecond or two; reviews come in between.
            await asyncio.sleep(0)
            self._learn(resource, resource.decode(item))
        return page.continue_token or None

    def _learn(self, resource: WatchedResource, document: JSONObject) -> Assessment:
        key = self.source.informer(resource.group_kind).learn(document)
        found = self._assess(key, document)
        if found.as_wanted or self._store.get(*key) is None:
            self._suspects.discard(key)
        else:
            self._suspects.add(key)
        return found

    async def look_at(self, key: ObjectKey) -> Assessment:
        """Look at one workload as the apiserver holds it; raises APIError, UnreachableError."""
        resource = self.source.informer(key.group_kind).resource
        async with self._slots:
            return self._learn(resource, resource.decode(await self._connection.request("GET", self._path(key))))

    def _path(self, key: ObjectKey) -> str:
        resource = self.source.informer(key.group_kind).resource
        return self.source.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)

    async def touch(self, key: ObjectKey, *, seen: str) -> Assessment:
        """Have a workload rendered, and return how it stands then.

        Args:
            key: The workload.
            seen: The version of the overrider that whoever renders it must have seen.

        Raises:
            APIError: The apiserver, or a webhook, does not let it be written.
            UnreachableError: There is no answer.
        """
        resource = self.source.informer(key.group_kind).resource
        text = trigger(self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"), overrider=seen)
        body = {"metadata": {"annotations": {TRIGGER_ANNOTATION: text}}}
        async with self._slots:
            await self._pace.step()
            written = await self._connection.request("PATCH", self._path(key), body=body, content_type=MERGE_PATCH)
        self.touched += 1
        return self._learn(resource, resource.decode(written))

    async def bring(self, key: ObjectKey, *, seen: str, sure: bool) -> str:
        """Have a workload rendered unless it is found to be as it should be; return what is wrong afterwards.

        Args:
            key: The workload.
            seen: As for `touch`.
            sure: Whether it is known that it has to be rendered, without a look.
        """
        error = ""
        try:
            found = Assessment((), "") if sure else await self.look_at(key)
            if sure or found.differs:
                found = await self.touch(key, seen=seen)
            error = found.error
            if found.differs:
                error = (
                    f"it was asked for and is not so at {', '.join(found.differs[:3])}: is the webhook registered, "
                    "does another one or the apiserver change it back?"
                )
        except APIError as problem:
            if problem.code == _GONE:
                self._store.remove(key)
            else:
                error = f"the apiserver says: {problem}"
        except UnreachableError as problem:
            error = str(problem)
        self.failed += bool(error)
        return error
