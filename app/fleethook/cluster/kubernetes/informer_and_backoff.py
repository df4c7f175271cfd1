"""Keep a store equal to one resource of an apiserver: list, then watch, until cancelled.

- A watch that ends or breaks continues from its last resourceVersion, without a new list.
- After 410 Gone (etcd has compacted the resourceVersion) the informer lists again. It also does so if the apiserver
  refuses three times in a row to continue.
- Objects that a list does not contain are removed from the store.
- A list of a resource with several versions is in the best version that is served then. The informer lists again if
  the watched version is no longer served, or if the definition of a resource in an older version has changed.
- Attempts are separated by a back-off with jitter, so that a fleet of replicas does not reconnect at the same time.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fleethook.cluster.api_errors import GONE, NOT_FOUND, APIError, UnreachableError, parse_api_error
from fleethook.cluster.kubernetes.list_reading_and_decoding import (
    Lister,
    NotServedError,
    Pause,
    Progress,
    Reader,
    as_number,
    decode_event,
    identified,
    is_required,
    number_of,
    version_of,
)
from fleethook.cluster.kubernetes.watched_resources import WatchedResource
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.model.json import JSONObject

_log: Final = logging.getLogger(__name__)

# kube-apiserver ends a watch after a random number of seconds in this range, so that watches do not end together.
_WATCH_SECONDS: Final = (300, 600)
# kube-apiserver sends a bookmark about once a minute, except for a resource that has not changed since it started
# (k8s.io/apiserver/pkg/storage/cacher/cacher.go: dispatchEvents). Without two of them, the connection may be lost, so
# the watch is opened again.
_IDLE_SECONDS: Final = 150.0
# A replica watches few resources, so a low maximum is no load for a starting apiserver, and keeps the store current.
_BACKOFF_SECONDS: Final = (0.25, 5.0)
ABSENT_SECONDS: Final = 10.0
"""Between two requests for a resource that the apiserver does not serve."""
# After a shorter stream the informer pauses; otherwise it would reconnect in a tight loop.
_SHORT_STREAM_SECONDS: Final = 1.0
_TRIES_BEFORE_RELIST: Final = 3
# A starting apiserver refuses a list once or twice. After more refusals, every replica is assumed to be refused.
_TRIES_BEFORE_REFUSED: Final = 3
# While one version replaces another, kube-apiserver answers 404 to both for a second or two: it removes the old one
# before it registers the new one. With their pauses, these attempts take about six seconds.
_TRIES_BEFORE_ABSENT: Final = 7

# After a CustomResourceDefinition is installed, each apiserver serves it within a second or two.
_FIRST_DISCOVERY_SECONDS: Final = 0.1
# An apiserver serves a new version a second or two after its definition was stored.
_SERVED_SECONDS: Final = 3.0

_TOO_MANY_REQUESTS: Final = 429


class _RelistError(Exception):
    """The watch cannot continue from its current position."""


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
        self._next = min(_FIRST_DISCOVERY_SECONDS, self._longest)
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


class Informer:
    """Lists and watches one resource.

    Attributes:
        relists: The number of complete lists that were read.
        absent: Whether there are no objects, because the apiserver serves no version of the resource.
        unserved: Whether the apiserver answered that it serves no version of the resource, expected or not.
        progress: The resourceVersion up to which all changes have been seen.
        noted: Called after each complete list, and when the apiserver turns out not to serve the resource.
    """

    def __init__(
        self,
        resource: WatchedResource,
        reader: Reader,
        store: Store,
        *,
        prefix: str = "",
        absent_seconds: float = ABSENT_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Pause | None = None,
    ) -> None:
        """Prepare to watch ``resource``.

        Args:
            resource: The resource to watch.
            reader: The connection to the apiserver.
            store: Receives the objects.
            prefix: Prefix of the resource's path.
            absent_seconds: Seconds between two requests for a resource that the apiserver does not serve (its
                CustomResourceDefinition is not installed).
            sleep: Sleeps for a number of seconds.
            pause: Awaited before each event if handling events takes long; None otherwise.
        """
        self.relists = 0
        self.noted: Callable[[], None] = lambda: None
        self._reader: Final = reader
        self._required: Final = is_required(resource, prefix)
        self._pause: Final = pause or _let_others_go_on
        self._lister: Final = Lister(resource, reader, store, prefix=prefix, pause=self._pause)
        self._watching: asyncio.Timeout | None = None
        self._store: Final = store
        self._absences: Final = DiscoveryPauses(absent_seconds, sleep=sleep)
        self._sleep: Final = sleep
        self.progress: Final = Progress()
        self._synced: Final = asyncio.Event()
        self._tried: Final = asyncio.Event()
        self.absent = False
        self.unserved = False
        self._tries_absent = 0
        self._refused = 0
        self._problem = ""
        self._heard_at: float | None = None
        self._failures = 0

    @property
    def resource(self) -> WatchedResource:
        """The resource in the chosen version."""
        return self._lister.current

    @property
    def synced(self) -> bool:
        """Whether the resource was listed once, or is known not to be served."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return as soon as the informer is `synced`."""
        await self._synced.wait()

    async def wait_tried(self) -> None:
        """Return as soon as the informer is `synced`, or its first list has failed."""
        await self._tried.wait()

    def ask_again(self) -> None:
        """Request an unserved resource at once, because its CustomResourceDefinition was installed or changed.

        A resource in an older version is listed again a little later.
        """
        self._absences.end()
        if self._watching is not None and self.resource != self._lister.candidates[0]:
            self._watching.reschedule(asyncio.get_running_loop().time() + _SERVED_SECONDS)

    def state(self) -> PartState:
        """Return the state of the resource, for readiness and messages."""
        detail = self._problem
        failing = bool(detail)
        if not detail and self.absent:
            detail = "not served by the apiserver (is its CustomResourceDefinition installed?); retrying regularly"
        if not detail and not self.synced:
            detail = "not listed yet"
        age = None if self._heard_at is None else time.monotonic() - self._heard_at
        refused = not self.synced and (self.unserved or self._refused >= _TRIES_BEFORE_REFUSED)
        return PartState(self.resource.name, self.synced, detail, age, failing=failing, refused=refused)

    async def run(self) -> None:
        """List and watch the resource until cancelled."""
        while True:
            try:
                self._finish_list(await self._lister.read())
                await self._follow()
            except _RelistError as reason:
                _log.info("%s: listing again: %s", self.resource.name, reason)
            except NotServedError as error:
                self._not_served(error)
                await self._absences.pause()
            except (APIError, UnreachableError, msgspec.DecodeError) as error:
                await self._back_off(error)

    def learn(self, document: JSONObject) -> ObjectKey:
        """Store an object of a live read, unless the watch is ahead of it, and return its key.

        If the watch is ahead and the store lacks the object, it was deleted after the live read.
        """
        key = self._identify(document)
        if number_of(document) > max(self.stored_version(key), self.progress.seen):
            self._store.put(document)
        return key

    def stored_version(self, key: ObjectKey) -> int:
        """Return the resourceVersion of the stored object, 0 if there is none."""
        stored = self._store.get(*key)
        if stored is None:
            return 0
        return number_of(stored) if isinstance(stored, dict) else as_number(stored.resource_version)

    def _not_served(self, error: NotServedError) -> None:
        self._tries_absent += 1
        self.unserved = True
        if self._is_changing_version():
            self._problem = "the apiserver serves no version of it at the moment"
            if self._tries_absent == 1:
                self._absences.end()
            return
        if self._required:
            # The objects that were read before stay: this is no answer about them.
            problem = f"the apiserver does not serve it at {self._lister.path(self.resource)} ({error})"
            if self._problem != problem:
                _log.warning("%s: %s", self.resource.name, problem)
            self._problem = problem
            self._tried.set()
            return
        is_news = not self.absent
        if is_news:
            _log.info("%s is not served by the apiserver", self.resource.name)
        self.absent = True
        self._synced.set()
        self._tried.set()
        self._problem = ""
        self._heard_at = time.monotonic()
        for key in list(self._store.keys(self.resource.group_kind)):
            self._store.remove(key)
        if is_news:
            self.noted()

    def _is_changing_version(self) -> bool:
        """Return whether the apiserver may be replacing the chosen version by another one."""
        several = len(self._lister.candidates) > 1
        return several and self.synced and not self.absent and self._tries_absent < _TRIES_BEFORE_ABSENT

    async def _back_off(self, error: Exception) -> None:
        """Pause, longer after each failure in a row. Full jitter spreads clients over the interval."""
        if self._problem != str(error):
            _log.warning("%s: %s", self.resource.name, error)
        self._problem = str(error)
        self._refused = self._refused + 1 if _is_server_fault(error) else 0
        self._tried.set()
        least, most = _BACKOFF_SECONDS
        ceiling = min(most, least * 2 ** min(self._failures, 16))
        self._failures += 1
        await self._sleep(random.uniform(least / 2, ceiling))  # noqa: S311 - spreads load, no secret

    def _clear_problem(self) -> None:
        if self._problem:
            _log.info("%s: reading works again", self.resource.name)
        self._problem = ""

    def _finish_list(self, place: str) -> None:
        self.relists += 1
        self.absent = self.unserved = False
        self._tries_absent = 0
        self._synced.set()
        self._tried.set()
        self._heard_at = time.monotonic()
        self._clear_problem()
        self._failures = 0
        self.progress.restart(place)
        self.noted()

    async def _follow(self) -> None:
        """Watch until another version may be served; ends by an exception only."""
        try:
            async with asyncio.timeout(None) as self._watching:
                await self._watch()
        except TimeoutError:
            raise _RelistError("its definition has changed") from None
        finally:
            self._watching = None

    async def _watch(self) -> None:
        """Watch from the current resourceVersion; ends by an exception only."""
        refused = 0
        while True:
            started = time.monotonic()
            try:
                if await self._stream():
                    refused = 0
                elif time.monotonic() - started < _SHORT_STREAM_SECONDS:
                    await self._back_off(UnreachableError("the watch ended at once"))
            except APIError as error:
                if error.code == GONE:
                    raise _RelistError(str(error)) from error
                if error.code == NOT_FOUND:
                    await self._back_off(error)
                    raise _RelistError(f"{self.resource.api_version} is no longer served") from error
                refused += 1
                if refused >= _TRIES_BEFORE_RELIST:
                    raise _RelistError(
                        f"refused {refused} times to continue from resourceVersion {self.progress.place}: {error}"
                    ) from error
                await self._back_off(error)
            except (UnreachableError, msgspec.DecodeError) as error:
                await self._back_off(error)

    async def _stream(self) -> bool:
        """Process one watch request to its end; return whether any event arrived."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.progress.place,
            "timeoutSeconds": str(random.randint(*_WATCH_SECONDS)),  # noqa: S311 - as above
            **self.resource.selectors,
        }
        received = False
        async with self._reader.lines(self._lister.path(self.resource), query=query, idle=_IDLE_SECONDS) as lines:
            self._heard_at = time.monotonic()
            self._clear_problem()
            async for line in lines:
                # Events that arrived together are read without waiting.
                await self._pause()
                self._handle(line)
                self._heard_at = time.monotonic()
                if not received:
                    received = True
                    # Not when a stream opens: streams that end at once must keep the back-off growing.
                    self._failures = 0
        return received

    def _handle(self, line: bytes) -> None:
        event = decode_event(line)
        if event.type == "BOOKMARK":
            self.progress.advance(version_of(event.object))
        elif event.type == "ERROR":
            raise parse_api_error(0, bytes(event.object))
        else:
            document = self.resource.decode(event.object)
            if event.type == "DELETED":
                key = self._identify(document)
                if self.stored_version(key) <= number_of(document):
                    self._store.remove(key)
            elif self.stored_version(self._identify(document)) <= number_of(document):
                # A live read may be ahead of the watch.
                self._store.put(document)
            self.progress.change(document["metadata"].get("resourceVersion") or self.progress.place)

    def _identify(self, document: JSONObject) -> ObjectKey:
        return key_of(identified(document, self.resource))


async def _let_others_go_on() -> None:
    await asyncio.sleep(0)


def _is_server_fault(error: Exception) -> bool:
    """Return whether the apiserver responded that it failed, as opposed to a denial or no response."""
    return isinstance(error, APIError) and (error.code >= 500 or error.code == _TOO_MANY_REQUESTS)
