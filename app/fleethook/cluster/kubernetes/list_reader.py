"""Read the complete list of a resource into the store, in the best version that the apiserver serves.

Others wait while a page is split into objects, 1.5 ms for each MB. Objects of one kind have similar sizes, so each page
tells how many objects the next one may have.

Served versions change at run time: an upgrade of OpenYurt adds v1beta1 to the CustomResourceDefinition of YurtAppSets,
and a downgrade removes it. Responses of the apiserver decide. The definition only tells when a request is worthwhile.
Without the right to read definitions, fleethook asks at regular intervals.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.list_watch import Page, decode_page, find_list_path
from fleethook.cluster.kubernetes.resources import WatchedResource
from fleethook.cluster.store import ObjectKey, Store, free_in_slices, key_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_list, as_object

# After a CustomResourceDefinition is installed, each apiserver serves it within a second or two.
_FIRST_SECONDS: Final = 0.1


class DiscoveryPauses:
    """Long pauses; after a change of the definition, short ones that grow."""

    def __init__(self, seconds: float, *, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Prepare.

        Args:
            seconds: The longest pause.
            sleep: Sleeps for a number of seconds.
        """
        self._longest: Final = seconds
        self._sleep: Final = sleep
        self._next = seconds
        self._ended: Final = asyncio.Event()

    def end(self) -> None:
        """End the current pause, and continue with short ones."""
        self._next = min(_FIRST_SECONDS, self._longest)
        self._ended.set()

    async def pause(self) -> None:
        """Wait for one pause, or until `end`."""
        self._ended.clear()
        waits = [asyncio.ensure_future(self._sleep(self._next)), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not self._ended.is_set():
            self._next = min(self._longest, 2 * self._next)


NOT_FOUND: Final = 404

ServedVersions = Callable[[], frozenset[str] | None]


def unknown_versions() -> frozenset[str] | None:
    """Return None: the served versions are unknown."""
    return None


class VersionChoice:
    """The candidate versions of one resource, and the chosen one.

    Attributes:
        candidates: The resource in each version that fleethook can read, the best first.
        current: The resource in the chosen version.
        problem: Why a better version cannot be checked or read, ``""`` if there is no problem.
    """

    def __init__(
        self,
        resource: WatchedResource,
        is_served: Callable[[WatchedResource], Awaitable[bool]],
        *,
        served: ServedVersions,
    ) -> None:
        """Prepare to read the best version.

        Args:
            resource: The resource in its best version.
            is_served: Asks the apiserver for the resource in one version; raises APIError, UnreachableError.
            served: Returns the versions that the resource's CustomResourceDefinition serves, None if it is unknown.
        """
        self.candidates: Final[Sequence[WatchedResource]] = resource.in_versions()
        self.current = self.candidates[0]
        self.problem = ""
        self._is_served: Final = is_served
        self._served: Final = served

    def choose(self, resource: WatchedResource) -> None:
        """Record the version that is read from now on."""
        self.current = resource
        self.problem = ""

    async def wait_for_other(self, pauses: DiscoveryPauses) -> None:
        """Return as soon as a better version is served, or the current one is no longer served.

        Args:
            pauses: The pauses between two requests.
        """
        while True:
            await pauses.pause()
            try:
                if await self._should_change():
                    return
                self.problem = ""
            except UnreachableError:
                continue  # The watch of the current version reports this.
            except APIError as error:
                # The watch of the current version continues.
                self.problem = f"a better version than {self.current.version} cannot be read: {error}"

    async def _should_change(self) -> bool:
        served = self._served()
        for better in self.candidates[: self.candidates.index(self.current)]:
            if (served is None or better.version in served) and await self._is_served(better):
                return True
        return served is not None and self.current.version not in served and not await self._is_served(self.current)


def versions_served(definition: JSONObject | None) -> frozenset[str] | None:
    """Return the served versions of a CustomResourceDefinition, None without a definition."""
    if definition is None:
        return None
    listed = as_list(as_object(definition.get("spec")).get("versions"))
    return frozenset(
        str(one["name"]) for one in listed if isinstance(one, dict) and one.get("served") is True and "name" in one
    )


_PAGE_BYTES: Final = 512 << 10
_FIRST: Final = 20
# client-go requests as many at a time, independent of their size (client-go, tools/pager/pager.go).
MAX_OBJECTS: Final = 500


class PageSize:
    """The number of objects of one kind that have about half a megabyte."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        """Begin with a small page: an object may have a megabyte."""
        self._objects = _FIRST

    @property
    def limit(self) -> str:
        """The number as a query has it."""
        return str(self._objects)

    def note(self, *, objects: int, size: int) -> None:
        """Take note of a page: how many objects it had, and how many bytes."""
        if objects:
            self._objects = max(1, min(MAX_OBJECTS, _PAGE_BYTES * objects // size))


# Objects that are decoded, or names that are compared, between two iterations of the event loop.
_SLICE: Final = 4
_NAMES_SLICE: Final = 2_000
GONE: Final = 410

Pause = Callable[[], Awaitable[None]]
"""Awaited between two slices of work; returns when others have had their turn."""


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


class RelistError(Exception):
    """The list or watch cannot continue from its current position."""


class NotServedError(Exception):
    """The apiserver serves no version of the resource; the text has its last answer."""


class Lister:
    """Reads the lists of one resource.

    Attributes:
        versions: The choice of the version to read.
    """

    def __init__(
        self,
        resource: WatchedResource,
        reader: Reader,
        store: Store,
        *,
        prefix: str,
        served: ServedVersions,
        pause: Pause,
    ) -> None:
        """Prepare; arguments as for `Informer`."""
        self.versions: Final = VersionChoice(resource, self._is_served, served=served)
        self._reader: Final = reader
        self._store: Final = store
        self._prefix: Final = prefix
        self._identity = ""
        self._was_read = False
        self._pause: Final = pause
        self._size: Final = PageSize()

    async def read(self) -> str:
        """Read the complete list, make the store equal to it, and return its resourceVersion.

        Raises:
            NotServedError: No version is served.
            RelistError: The list has to be read from its start.
            APIError, UnreachableError, msgspec.DecodeError: The list cannot be read. An older version is no substitute,
                because its objects may lack fields.
        """
        answer = ""
        for resource in self.versions.candidates:
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
        if resource != self.versions.current and any(True for _ in self._store.keys(resource.group_kind)):
            return await self._replace_version(resource)
        decode = resource.decode if self._was_read else resource.decode_first or resource.decode
        listed: dict[tuple[str, str], set[str]] = {}
        place = ""
        async for page in self._pages(resource):
            self.versions.choose(resource)
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

    async def _replace_version(self, resource: WatchedResource) -> str:
        """Read all objects, then replace those of another version in one step, so that no reader sees two versions."""
        documents: list[JSONObject] = []
        place = ""
        async for page in self._pages(resource):
            place = page.resource_version
            documents += [identified(resource.decode(item), resource) for item in page.items]
        keys = {key_of(document) for document in documents}
        former = [self._store.get(*key) for key in self._store.keys(resource.group_kind)]
        self.versions.choose(resource)
        for document in documents:
            self._store.put(document)
        self._keep(resource, keys)
        free_in_slices(former)
        return place

    def _keep(self, resource: WatchedResource, seen: set[ObjectKey]) -> None:
        for key in list(self._store.keys(resource.group_kind)):
            if key not in seen:
                self._store.remove(key)

    async def _pages(self, resource: WatchedResource) -> AsyncIterator[Page]:
        page = await self._page(resource, "")
        while True:
            yield page
            # Reviews that arrived meanwhile come first.
            await self._pause()
            if not page.continue_token:
                return
            page = await self._page(resource, page.continue_token)

    async def _page(self, resource: WatchedResource, continue_token: str) -> Page:
        query = {"limit": self._size.limit, **resource.selectors}
        if continue_token:
            query["continue"] = continue_token
        try:
            text = await self._reader.request("GET", self.path(resource), query=query)
        except APIError as error:
            if error.code == GONE and continue_token:
                raise RelistError("the continue token of the list has expired") from error
            raise
        await self._pause()
        page = decode_page(text)
        self._size.note(objects=len(page.items), size=len(text))
        return page

    async def _is_served(self, resource: WatchedResource) -> bool:
        """Return whether the apiserver serves a version of the resource; raises APIError, UnreachableError."""
        query = {"limit": "1", **resource.selectors}
        try:
            await self._reader.request("GET", self.path(resource), query=query)
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
            return False
        return True


def identified(document: JSONObject, resource: WatchedResource) -> JSONObject:
    """Set apiVersion and kind, which the items of a list may omit, and return the object."""
    document["apiVersion"] = resource.api_version
    document["kind"] = resource.kind
    return document
