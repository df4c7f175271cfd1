"""The paths of lists, the decoding of lists and watch events, and the reading of a complete list into the store.

A list over all logical clusters of a kcp has a path of its own. For a resource that an APIExport of kcp's root
provides, the path names the identity of that export: ``workspaces:HASH``. Without it, kcp answers 404
(pkg/server/bootstrap/identity.go).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

import msgspec

from fleethook.cluster.api_errors import NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.kubernetes.watched_resources import BUILT_IN, KCP, WatchedResource
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject

EVERY_CLUSTER: Final = "/clusters/*"
"""The prefix of the paths that read all logical clusters of a kcp."""

EVERY_SHARD: Final = "/services/cache/shards/*/clusters/*"
"""The prefix of the paths that read all shards in the cache server of a kcp (pkg/cache/server)."""


class Reader(Protocol):
    """The methods of a connection that sources use."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float = ...,  # noqa: ASYNC109
    ) -> bytes:
        """Return the response body; raises APIError, UnreachableError."""

    def lines(
        self, path: str, *, query: Mapping[str, str], idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of lines; raises APIError, UnreachableError."""


def is_required(resource: WatchedResource, prefix: str) -> bool:
    """Return whether each apiserver of this kind serves a resource below a prefix, so that a 404 is a fault."""
    return resource.group_kind in BUILT_IN or (prefix in (EVERY_CLUSTER, EVERY_SHARD) and resource in KCP)


async def find_list_path(reader: Reader, resource: WatchedResource, prefix: str) -> str:
    """Return the path that lists and watches a resource; raises APIError, UnreachableError.

    Args:
        reader: Connection to the apiserver.
        resource: The resource.
        prefix: Prefix of its path, such as `EVERY_CLUSTER`.
    """
    path = prefix + resource.path
    if prefix != EVERY_CLUSTER or not resource.export:
        return path
    from fleethook.cluster.kubernetes.export_connection import read_identity  # noqa: PLC0415 - see fleethook.cluster

    return f"{path}:{await read_identity(reader, resource.export)}"


class _Meta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str = ""
    continue_: str = ""


class _List(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: list[msgspec.Raw] | None = None
    kind: str = ""


class Page(NamedTuple):
    """One page of a list."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str
    """``""`` on the last page."""
    kind: str = ""
    """The kind of the list, such as ``DeploymentList``; ``""`` if it has none."""


class WatchEvent(msgspec.Struct):
    """One line of a watch: ``metav1.WatchEvent``."""

    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decode_list: Final = msgspec.json.Decoder(_List).decode
decode_event: Final = msgspec.json.Decoder(WatchEvent).decode
"""Returns a watch event; raises msgspec.DecodeError."""
_decode_bookmark: Final = msgspec.json.Decoder(_Bookmark).decode


def decode_page(text: bytes, path: str) -> Page:
    """Return a page of the list at a path; raises UnreachableError if the answer is no list."""
    try:
        found = _decode_list(text)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"{path}: the answer is no list of objects: {error}") from error
    return Page(found.items or [], found.metadata.resource_version, found.metadata.continue_, found.kind)


def version_of(text: bytes | msgspec.Raw) -> str:
    """Return the resourceVersion of an object or bookmark; raises msgspec.DecodeError."""
    return _decode_bookmark(text).metadata.resource_version


def as_number(resource_version: str) -> int:
    """Return a resourceVersion as a number, 0 if it is not a number.

    Resource versions have always been etcd revisions. Since 1.35 Kubernetes guarantees that they can be compared as
    numbers (KEP-5504).
    """
    return int(resource_version) if resource_version.isdecimal() else 0


def number_of(document: JSONObject) -> int:
    """Return the resourceVersion of an object as a number, 0 if it has none."""
    return as_number(document["metadata"].get("resourceVersion") or "")


class Progress:
    """The progress of the watch of one resource.

    Attributes:
        place: The resourceVersion from which a watch continues.
        seen: The resourceVersion up to which all changes have been seen.
        changed: The resourceVersion of the last change that was seen; all replicas see the same one. A bookmark may
            move `seen` further, and each replica receives bookmarks at a different time.
    """

    def __init__(self) -> None:
        self.place = ""
        self.seen = 0
        self.changed = 0
        self._advanced: asyncio.Event | None = None

    async def wait_for(self, resource_version: int) -> None:
        """Return as soon as all changes up to ``resource_version`` have been seen."""
        while self.seen < resource_version:
            self._advanced = self._advanced or asyncio.Event()
            await self._advanced.wait()

    def restart(self, place: str) -> None:
        """Record that a complete list was read."""
        # A list is older than the former watch only if etcd was restored from a backup.
        self.seen = 0
        self.change(place)

    def change(self, place: str) -> None:
        """Record a change."""
        self.advance(place)
        self.changed = self.seen

    def advance(self, place: str) -> None:
        """Record a bookmark: no other change has a lower resourceVersion."""
        self.place = place
        self.seen = max(self.seen, as_number(place))
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None


# Objects of a page. Others wait while a page is split into objects, 1.5 ms for each MB.
_PAGE_LIMIT: Final = "100"
# Objects that are decoded, or names that are compared, between two iterations of the event loop.
_SLICE: Final = 4
_NAMES_SLICE: Final = 2_000

Pause = Callable[[], Awaitable[None]]
"""Awaited between two slices of work; returns when others have had their turn."""


class NotServedError(Exception):
    """The apiserver serves no version of the resource; the text has its last answer."""


class Lister:
    """Reads the lists of one resource.

    Attributes:
        candidates: The resource in each version that fleethook can read, the best first.
        current: The resource in the version of the last list.
    """

    def __init__(self, resource: WatchedResource, reader: Reader, store: Store, *, prefix: str, pause: Pause) -> None:
        """Prepare; arguments as for `Informer`."""
        self.candidates: Final = resource.in_versions()
        self.current = self.candidates[0]
        self._reader: Final = reader
        self._store: Final = store
        self._prefix: Final = prefix
        self._identity = ""
        self._was_read = False
        self._pause: Final = pause

    async def read(self) -> str:
        """Read the complete list, make the store equal to it, and return its resourceVersion.

        Raises:
            NotServedError: No version is served.
            APIError, UnreachableError, msgspec.DecodeError: The list cannot be read. An older version is no substitute,
                because its objects may lack fields.
        """
        answer = ""
        for resource in self.candidates:
            try:
                # A kcp that was set up anew has other identities.
                path = await find_list_path(self._reader, resource, self._prefix)
                self._identity = path.removeprefix(self._prefix + resource.path)
                return await self._read_version(resource)
            except APIError as error:
                if error.code != NOT_FOUND:
                    raise
                answer = str(error)
        raise NotServedError(answer)

    def path(self, resource: WatchedResource) -> str:
        """Return the path that lists and watches the resource in a version."""
        return f"{self._prefix}{resource.path}{self._identity}"

    async def _read_version(self, resource: WatchedResource) -> str:
        decode = resource.decode if self._was_read else resource.decode_first or resource.decode
        listed: dict[tuple[str, str], set[str]] = {}
        place = ""
        async for page in read_pages(self._reader, self.path(resource), resource, pause=self._pause):
            self.current = resource
            place = page.resource_version
            for number, item in enumerate(page.items):
                if number % _SLICE == _SLICE - 1:
                    await self._pause()  # Reviews that arrived meanwhile come first.
                document = identified(decode(item), resource)
                key = key_of(document)
                listed.setdefault((key.cluster, key.namespace), set()).add(key.name)
                self._store.put(document)
        await self._remove_others(resource.group_kind, listed)
        self._was_read = True
        return place

    async def _remove_others(self, group_kind: GroupKind, listed: dict[tuple[str, str], set[str]]) -> None:
        """Remove the objects whose names are not in a list.

        It makes no key of an object that stays. The keys of 100,000 objects took 50 ms to make and 50 ms to free.
        """
        number = 0
        for cluster, namespace in self._store.namespaces(group_kind):
            names = listed.pop((cluster, namespace), set())
            for name in self._store.names_in(cluster, group_kind, namespace):
                number += 1
                if number % _NAMES_SLICE == 0:
                    await self._pause()  # Reviews that arrived meanwhile come first.
                if name not in names:
                    self._store.remove(ObjectKey(cluster, group_kind, namespace, name))


async def read_pages(reader: Reader, path: str, resource: WatchedResource, *, pause: Pause) -> AsyncIterator[Page]:
    """Yield the pages of a complete list; raises APIError, UnreachableError, msgspec.DecodeError.

    Args:
        reader: Connection to the apiserver.
        path: The path of the list.
        resource: The resource, for its selectors.
        pause: Awaited before and after a page is decoded.
    """
    query = {"limit": _PAGE_LIMIT, **resource.selectors}
    while True:
        text = await reader.request("GET", path, query=query)
        await pause()
        page = decode_page(text, path)
        yield page
        await pause()
        if not page.continue_token:
            return
        query = {**query, "continue": page.continue_token}


def identified(document: JSONObject, resource: WatchedResource) -> JSONObject:
    """Set apiVersion and kind, which the items of a list may omit, and return the object."""
    document["apiVersion"] = resource.api_version
    document["kind"] = resource.kind
    return document
