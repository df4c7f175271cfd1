"""Read the complete list of a resource into the store, in the best version that the apiserver serves at that time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.list_watch import Page, decode_page, find_list_path
from fleethook.cluster.kubernetes.resources import WatchedResource
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject

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

PAGE_LIMIT: Final = "100"
"""Objects of a page. Others wait while a page is split into objects, 1.5 ms for each MB."""
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
        candidates: The resource in each version that fleethook can read, the best first.
        current: The resource in the version of the last list.
    """

    def __init__(
        self,
        resource: WatchedResource,
        reader: Reader,
        store: Store,
        *,
        prefix: str,
        pause: Pause,
    ) -> None:
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
            RelistError: The list has to be read from its start.
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
        async for page in self._pages(resource):
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
        query = {"limit": PAGE_LIMIT, **resource.selectors}
        if continue_token:
            query["continue"] = continue_token
        try:
            text = await self._reader.request("GET", self.path(resource), query=query)
        except APIError as error:
            if error.code == GONE and continue_token:
                raise RelistError("the continue token of the list has expired") from error
            raise
        await self._pause()
        return decode_page(text)


def identified(document: JSONObject, resource: WatchedResource) -> JSONObject:
    """Set apiVersion and kind, which the items of a list may omit, and return the object."""
    document["apiVersion"] = resource.api_version
    document["kind"] = resource.kind
    return document
