"""A store kept equal to what an apiserver holds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from app.kube.errors import APIError
from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.store import ObjectKey, Store, Stored, key_of
from app.store.sources.kubernetes.informer import Informer
from app.store.sources.kubernetes.listing import Pause, Reader
from app.store.sources.kubernetes.resources import DEFINITIONS, WatchedResource
from app.store.sources.kubernetes.selection import Selection
from app.store.sources.kubernetes.singleflight import SharedReads
from app.store.sources.kubernetes.versions import NOT_FOUND, versions_served
from app.store.sources.kubernetes.wire import as_number, decode_page
from app.store.sources.source import PartState

_log: Final = logging.getLogger(__name__)

# Objects of a live list that are compared before others get their turn; most are known already.
_SLICE: Final = 100
# Of the five seconds that an apiserver waits for a webhook.
_LIVE_SECONDS: Final = 2.0
_BAD_REQUEST: Final = 400


def _cluster_path(cluster: str) -> str:
    return f"/clusters/{cluster}"


class KubernetesSource:
    """One informer a resource, over one connection.

    Attributes:
        every_cluster: Whether all logical clusters of kcp are followed.
        everywhere: What is put before a path to read it in all clusters that are followed.
    """

    def __init__(
        self,
        resources: Sequence[WatchedResource],
        reader: Reader,
        store: Store,
        *,
        absent_seconds: float,
        every_cluster: bool = False,
        advisory: Collection[GroupKind] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Pause | None = None,
    ) -> None:
        """Prepare to follow ``resources``.

        Args:
            resources: What to follow.
            reader: Where from.
            store: Where to.
            absent_seconds: How often to ask again for a resource, or for a better version of it, that the server does
                not serve. It is asked for at once when its CustomResourceDefinition changes, if those are among
                ``resources``.
            advisory: Kinds that no answer depends on; nothing waits for them.
            every_cluster: Whether the server is kcp's, and all its logical clusters are to be read at once. Their
                objects say by annotation where they live.
            sleep: Waits that many seconds.
            pause: Awaited between two slices of the work on objects, where that takes long; None where it does not.
        """
        self._store: Final = store
        self._reader: Final = reader
        self.every_cluster: Final = every_cluster
        self.everywhere: Final = _cluster_path("*") if every_cluster else ""
        self._informers: Final = {
            resource.group_kind: Informer(
                resource,
                reader,
                store,
                prefix=self.everywhere,
                absent_seconds=absent_seconds,
                served=partial(self._served_versions, resource),
                sleep=sleep,
                pause=pause,
            )
            for resource in resources
        }
        self._needed: Final = frozenset(self._informers.keys() - set(advisory))
        self._unread: Final = set(self._informers)
        self._reads: Final = SharedReads()
        # Kinds whose definition does not have the fields that a selection names, or whose apiserver is too old for it.
        self._unselectable: Final[set[tuple[str, GroupKind]]] = set()
        store.subscribe(self._definition_changed)

    @property
    def synced(self) -> bool:
        """Whether every resource that an answer depends on was listed once, or is known not to be served."""
        return all(self._informers[kind].synced for kind in self._needed)

    def missing(self, group_kinds: Iterable[GroupKind]) -> str:
        """Return why nothing can be answered that depends on these kinds, ``""`` if all of them were read."""
        # Every review asks; what was read once stays so.
        unread = [kind for kind in group_kinds if kind in self._unread]
        if not unread:
            return ""
        self._unread.difference_update([kind for kind in unread if self._informers[kind].synced])
        missing = [self._informers[kind] for kind in unread if kind in self._unread]
        return "; ".join(f"{one.resource.name} cannot be read: {self._located(one.state().detail)}" for one in missing)

    def parts(self) -> Iterator[PartState]:
        """Yield the state of every resource; one that no answer depends on is never in the way of being ready."""
        for group_kind, informer in self._informers.items():
            state = informer.state()
            state = state._replace(detail=self._located(state.detail))
            yield state if group_kind in self._needed else state._replace(synced=True, needed=False)

    def _located(self, detail: str) -> str:
        """Return the problem of a resource, with the clusters that it was requested in."""
        return f"in all logical clusters (/clusters/*): {detail}" if detail and self.every_cluster else detail

    @property
    def finds_nothing(self) -> bool:
        """Whether the server serves none of the resources: its URL is another server's, or leads past the API."""
        return bool(self._informers) and all(informer.absent for informer in self._informers.values())

    def ask_again(self) -> None:
        """Ask at once for all resources that were not served: CustomResourceDefinitions were installed."""
        for informer in self._informers.values():
            informer.ask_again()

    def _definition_changed(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        if key.group_kind != DEFINITIONS.group_kind or after is None:
            return
        for group_kind, informer in self._informers.items():
            if informer.resource.name == key.name:
                informer.ask_again()
                self._unselectable.difference_update([one for one in self._unselectable if one[1] == group_kind])

    def _served_versions(self, resource: WatchedResource) -> frozenset[str] | None:
        """Return the versions that a resource's definition serves, None if it is unknown.

        A kcp has a definition in each logical cluster, or an APIResourceSchema in its place, so there it is unknown.
        """
        definitions = self._informers.get(DEFINITIONS.group_kind)
        if definitions is None or definitions.state().failing:
            return None
        return versions_served(self._store.get("", DEFINITIONS.group_kind, "", resource.name))

    def informer(self, group_kind: GroupKind) -> Informer:
        """Return what follows a kind; raises KeyError if nothing does."""
        return self._informers[group_kind]

    async def wait_synced(self, group_kinds: Iterable[GroupKind] | None = None) -> None:
        """Return as soon as these kinds were read; without any, as soon as it is `synced`."""
        for group_kind in self._needed if group_kinds is None else group_kinds:
            await self._informers[group_kind].wait_synced()

    async def wait_tried(self, group_kinds: Iterable[GroupKind] | None = None) -> None:
        """Return as soon as it was at least tried to read these kinds; without any, every resource."""
        for group_kind in self._informers if group_kinds is None else group_kinds:
            await self._informers[group_kind].wait_tried()

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        """Wait until everything of a kind up to ``resource_version`` is in the store; return whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self._informers[group_kind].wait_for(resource_version)
        except TimeoutError:
            return False
        return True

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        """Return whether the store may lack a change of that kind up to ``resource_version``."""
        return self._informers[group_kind].progress < resource_version

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Bring one object of the store up to what the server holds now; raises APIError, UnreachableError.

        Callers share a request, but none that started before they called.
        """
        key = ObjectKey(cluster, group_kind, namespace, name)
        await self._reads.join(key, partial(self._read_one, key))

    async def _read_one(self, key: ObjectKey) -> None:
        informer = self._informers[key.group_kind]
        resource = informer.resource
        path = self.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)
        before = informer.stored_version(key)
        try:
            text = await self._reader.request("GET", path, timeout=_LIVE_SECONDS)
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
            if informer.absent or _is_about_object(error, key.name):
                # One that was created while the answer was under way is not what the answer is about.
                if informer.stored_version(key) <= before:
                    self._store.remove(key)
                return
            if informer.resource == resource:
                informer.ask_again()
                raise
        if informer.resource != resource:
            # Another version was listed meanwhile, and the store holds objects of one version only.
            await self._read_one(key)
            return
        informer.learn(resource.decode(text))

    async def read_namespace(self, group_kind: GroupKind, *, cluster: str, namespace: str) -> None:
        """Bring the objects of one kind in a namespace up to what the server holds now; raises as `read_one`."""
        key = ObjectKey(cluster, group_kind, namespace, "")
        await self._reads.join(key, partial(self._read_namespace, group_kind, cluster=cluster, namespace=namespace))

    async def _read_namespace(self, group_kind: GroupKind, *, cluster: str, namespace: str) -> None:
        stored = partial(self._store.keys_in, cluster, group_kind, namespace)
        await self._read_list(group_kind, stored, cluster=cluster, namespace=namespace, query={})

    async def read_selected(self, selection: Selection, *, cluster: str) -> None:
        """Bring the objects of a selection up to what the server holds now; raises as `read_one`.

        An apiserver that cannot select them is asked for the whole namespace.
        """
        group_kind, namespace = selection.by.group_kind, selection.namespace
        if (cluster, group_kind) in self._unselectable:
            await self.read_namespace(group_kind, cluster=cluster, namespace=namespace)
            return
        key = (cluster, group_kind, namespace, selection.fields)
        try:
            await self._reads.join(key, partial(self._read_selected, selection, cluster=cluster))
        except APIError as error:
            if error.code != _BAD_REQUEST:
                raise
            if (cluster, group_kind) not in self._unselectable:
                _log.info("%s: whole namespaces are read: %s", self._informers[group_kind].resource.name, error)
            self._unselectable.add((cluster, group_kind))
            await self.read_namespace(group_kind, cluster=cluster, namespace=namespace)

    async def _read_selected(self, selection: Selection, *, cluster: str) -> None:
        def stored() -> list[ObjectKey]:
            return [key_of(one) for one in self._store.find(selection.by, cluster, selection.key)]

        query = {"fieldSelector": selection.selector}
        kind = selection.by.group_kind
        await self._read_list(kind, stored, cluster=cluster, namespace=selection.namespace, query=query)

    async def _read_list(
        self,
        group_kind: GroupKind,
        stored: Callable[[], list[ObjectKey]],
        *,
        cluster: str,
        namespace: str,
        query: Mapping[str, str],
    ) -> None:
        """Read a list; ``stored`` returns the keys in the store that it is the truth about."""
        informer = self._informers[group_kind]
        resource = informer.resource
        path = self.scope(cluster) + resource.in_namespace(namespace)
        try:
            page = decode_page(await self._reader.request("GET", path, query=query or None, timeout=_LIVE_SECONDS))
        except APIError as error:
            if error.code == NOT_FOUND and informer.absent:
                return
            raise
        found: set[ObjectKey] = set()
        for number, item in enumerate(page.items):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)  # A namespace may have thousands of objects, and others wait.
            if informer.resource != resource:
                # Another version was listed meanwhile, and the store holds objects of one version only.
                await self._read_list(group_kind, stored, cluster=cluster, namespace=namespace, query=query)
                return
            found.add(informer.learn_text(item, cluster=cluster))
        for key in stored():
            if key not in found and informer.stored_version(key) <= as_number(page.resource_version):
                self._store.remove(key)

    def scope(self, cluster: str) -> str:
        """Return what is put before the path of an object in ``cluster``."""
        return _cluster_path(cluster) if self.every_cluster and cluster else ""

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run(), name=f"informer {informer.resource.name}")


def _is_about_object(error: APIError, name: str) -> bool:
    """Return whether a 404 says that an object does not exist, as opposed to: the version of its kind is not served.

    The former is a Status that quotes the name (apimachinery, api/errors: NewNotFound), the latter plain text.
    """
    return error.reason == "NotFound" and f'"{name}"' in error.message
