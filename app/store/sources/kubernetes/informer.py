"""Keeping a store equal to one resource of an apiserver: list, then watch, for ever.

What can go wrong and what is done: a stream that ends or is cut is taken up where it stopped, so nothing is lost and
nothing is listed again; 410 Gone (etcd has compacted the place away) lists again; so does a server that three times in
a row will not continue from the place. A list is the whole truth, so what it does not hold is removed from the store.
A resource with several versions is read in the best one that is served (`versions`). The store holds objects of one
version only: those of another one are read to the end before they replace the objects in the store, in one step.
Between attempts there is a back-off with jitter, so that a fleet of replicas does not come back all at once.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from app.kube.errors import APIError, UnreachableError
from app.model.json import JSONObject
from app.store import ObjectKey, Store, key_of
from app.store.sources.kubernetes.absence import AbsencePauses
from app.store.sources.kubernetes.listing import GONE, Lister, NotServedError, Pause, Reader, RelistError, identified
from app.store.sources.kubernetes.progress import Progress
from app.store.sources.kubernetes.resources import WatchedResource
from app.store.sources.kubernetes.versions import NOT_FOUND, ServedVersions, unknown_versions
from app.store.sources.kubernetes.wire import as_number, decode_event, failure_of, name_of, version_of
from app.store.sources.source import PartState

_log: Final = logging.getLogger(__name__)

# The server ends a watch after this many seconds, chosen at random so that they do not all end together.
_WATCH_SECONDS: Final = (300, 600)
# An apiserver sends a bookmark about once a minute; two missed ones mean that nobody is there any more.
_IDLE_SECONDS: Final = 150.0
# A replica follows a handful of resources, so a short ceiling costs a coming apiserver little and keeps answers fresh.
_BACKOFF_SECONDS: Final = (0.25, 5.0)
_ABSENT_SECONDS: Final = 10.0
# A stream that ends sooner did no good; without a pause the next would follow at once.
_SHORT_STREAM_SECONDS: Final = 1.0
_TRIES_BEFORE_RELIST: Final = 3
# Events that are handled before reviews get their turn.
_SLICE: Final = 20
# An apiserver that starts refuses a list once or twice; one that goes on refusing does so to every replica.
_TRIES_BEFORE_REFUSED: Final = 3
# Where one version replaces another, an apiserver answers 404 to both for a second or two: it registers the new one
# after it has withdrawn the old one. With the pauses between, these attempts take some six seconds.
_TRIES_BEFORE_ABSENT: Final = 7

_TOO_MANY_REQUESTS: Final = 429


class Informer:
    """Follows one resource.

    Attributes:
        relists: How often a whole list was read.
    """

    def __init__(
        self,
        resource: WatchedResource,
        reader: Reader,
        store: Store,
        *,
        prefix: str = "",
        absent_seconds: float = _ABSENT_SECONDS,
        served: ServedVersions = unknown_versions,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Pause | None = None,
    ) -> None:
        """Prepare to follow ``resource``.

        Args:
            resource: What to follow.
            reader: Where from.
            store: Where to.
            prefix: Put before the resource's path.
            absent_seconds: How often to ask again for a resource, or a better version of it, that the server does not
                serve (its CustomResourceDefinition is not installed or has no such version).
            served: Returns the versions that the resource's CustomResourceDefinition serves, None if it is unknown.
            sleep: Waits that many seconds.
            pause: Awaited before each event where to handle one takes long; None where it does not.
        """
        self.relists = 0
        self._reader: Final = reader
        self._prefix: Final = prefix
        self._pause: Final = pause
        self._lister: Final = Lister(
            resource, reader, store, prefix=prefix, served=served, pause=pause or _let_others_go_on
        )
        self._versions: Final = self._lister.versions
        self._store: Final = store
        self._absences: Final = AbsencePauses(absent_seconds, sleep=sleep)
        self._sleep: Final = sleep
        self._progress: Final = Progress()
        self._synced: Final = asyncio.Event()
        self._tried: Final = asyncio.Event()
        self._absent = False
        self._tries_absent = 0
        self._refused = 0
        self._problem = ""
        self._heard_at: float | None = None
        self._failures = 0

    @property
    def resource(self) -> WatchedResource:
        """The resource in the version that is read."""
        return self._versions.current

    @property
    def absent(self) -> bool:
        """Whether the apiserver serves no version of the resource."""
        return self._absent

    @property
    def synced(self) -> bool:
        """Whether the resource was listed once, or is known not to be served."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return as soon as it is `synced`."""
        await self._synced.wait()

    async def wait_tried(self) -> None:
        """Return as soon as it is `synced`, or the first attempt to list it has failed."""
        await self._tried.wait()

    def ask_again(self) -> None:
        """Ask at once for what was not served: the CustomResourceDefinition was installed or changed."""
        self._absences.end()

    @property
    def progress(self) -> int:
        """The resource version up to which everything has been seen."""
        return self._progress.seen

    @property
    def changed(self) -> int:
        """The resource version of the last change that was seen (`Progress`)."""
        return self._progress.changed

    def state(self) -> PartState:
        """Return how it stands."""
        detail = self._problem or self._versions.problem
        failing = bool(detail)
        if not detail and self._absent:
            detail = "not served by the apiserver (is its CustomResourceDefinition installed?); asked again regularly"
        if not detail and not self.synced:
            detail = "not listed yet"
        age = None if self._heard_at is None else time.monotonic() - self._heard_at
        refused = not self.synced and self._refused >= _TRIES_BEFORE_REFUSED
        return PartState(self.resource.name, self.synced, detail, age, failing=failing, refused=refused)

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        while True:
            try:
                self._listed(await self._lister.read())
                await self._follow()
            except RelistError as reason:
                _log.info("%s: listing again: %s", self.resource.name, reason)
            except NotServedError:
                self._not_served()
                await self._absences.pause()
            except (APIError, UnreachableError, msgspec.DecodeError) as error:
                await self._back_off(error)

    async def wait_for(self, resource_version: int) -> None:
        """Return as soon as everything up to ``resource_version`` has been seen."""
        await self._progress.wait_for(resource_version)

    def learn(self, document: JSONObject) -> ObjectKey:
        """Store an object that was read beside the watch, unless the watch is ahead of it, and return its key.

        What the watch has passed and does not hold was deleted while the answer was under way.
        """
        key = self._keyed(document)
        if _version(document) > max(self.stored_version(key), self._progress.seen):
            self._store.put(document)
        return key

    def has_version_of(self, key: ObjectKey, text: bytes) -> bool:
        """Return whether the object of an answer is stored in the version that the answer has."""
        return self.stored_version(key) == as_number(version_of(text)) != 0

    def learn_text(self, text: msgspec.Raw, *, cluster: str) -> ObjectKey:
        """Store an object as `learn` does; one that is stored in this version already is not decoded.

        Args:
            text: The object.
            cluster: The logical cluster that it was read in.
        """
        name = name_of(text)
        key = ObjectKey(cluster, self.resource.group_kind, name.namespace, name.name)
        if name.name and self.stored_version(key) == as_number(name.resource_version) != 0:
            return key
        return self.learn(self.resource.decode(text))

    def stored_version(self, key: ObjectKey) -> int:
        """Return the resource version of the stored object, 0 if there is none."""
        stored = self._store.get(*key)
        if stored is None:
            return 0
        return _version(stored) if isinstance(stored, dict) else as_number(stored.resource_version)

    def _not_served(self) -> None:
        self._tries_absent += 1
        if self._is_changing_version():
            self._problem = "no version of it is served by the apiserver just now"
            if self._tries_absent == 1:
                self._absences.end()
            return
        if not self._absent:
            _log.info("%s is not served by the apiserver", self.resource.name)
        self._absent = True
        self._set_synced()
        self._problem = ""
        self._heard()
        for key in list(self._store.keys(self.resource.group_kind)):
            self._store.remove(key)

    def _is_changing_version(self) -> bool:
        """Return whether the apiserver may be replacing the version that was read by another one."""
        several = len(self._versions.candidates) > 1
        return several and self.synced and not self._absent and self._tries_absent < _TRIES_BEFORE_ABSENT

    def _set_synced(self) -> None:
        self._synced.set()
        self._tried.set()

    async def _back_off(self, error: Exception) -> None:
        """Wait, longer each time in a row; full jitter, so that clients spread over the whole interval."""
        if self._problem != str(error):
            _log.warning("%s: %s", self.resource.name, error)
        self._problem = str(error)
        self._refused = self._refused + 1 if _is_server_fault(error) else 0
        self._tried.set()
        least, most = _BACKOFF_SECONDS
        ceiling = min(most, least * 2 ** min(self._failures, 16))
        self._failures += 1
        await self._sleep(random.uniform(least / 2, ceiling))  # noqa: S311 - spreads load, guards nothing

    def _heard(self) -> None:
        self._heard_at = time.monotonic()

    def _read_again(self) -> None:
        if self._problem:
            _log.info("%s: read again", self.resource.name)
        self._problem = ""

    def _well(self) -> None:
        self._read_again()
        # Not as soon as a stream opens: one that ends at once again and again is no better than none.
        self._failures = 0

    def _listed(self, place: str) -> None:
        self.relists += 1
        self._absent = False
        self._tries_absent = 0
        self._set_synced()
        self._heard()
        self._well()
        self._progress.restart(place)

    async def _follow(self) -> None:
        """Follow changes until another version has to be read; ends by an exception only."""
        if len(self._versions.candidates) == 1:
            await self._watch()
        watch = asyncio.create_task(self._watch(), name=f"watch {self.resource.name}")
        other = asyncio.create_task(self._versions.wait_for_other(self._absences), name="other version")
        try:
            await asyncio.wait((watch, other), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            other.cancel()
            await asyncio.wait((watch, other))
        for task in (watch, other):
            if not task.cancelled():
                task.result()
        raise RelistError("another version is to be read")

    async def _watch(self) -> None:
        """Follow changes from the current place; ends by an exception only."""
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
                    raise RelistError(str(error)) from error
                if error.code == NOT_FOUND:
                    await self._back_off(error)
                    raise RelistError(f"{self.resource.api_version} is not served any more") from error
                refused += 1
                if refused >= _TRIES_BEFORE_RELIST:
                    raise RelistError(
                        f"refused {refused} times to continue from {self._progress.place}: {error}"
                    ) from error
                await self._back_off(error)
            except (UnreachableError, msgspec.DecodeError) as error:
                await self._back_off(error)

    async def _stream(self) -> bool:
        """Follow one watch request to its end; return whether it brought anything."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._progress.place,
            "timeoutSeconds": str(random.randint(*_WATCH_SECONDS)),  # noqa: S311 - as above
            **self.resource.selectors,
        }
        brought = False
        async with self._reader.lines(self._prefix + self.resource.path, query=query, idle=_IDLE_SECONDS) as lines:
            self._heard()
            self._read_again()
            handled = 0
            async for line in lines:
                # Events that arrived together are read without waiting.
                if self._pause is not None:
                    await self._pause()
                elif handled % _SLICE == _SLICE - 1:
                    await _let_others_go_on()
                self._handle(line)
                self._heard()
                handled += 1
                if not brought:
                    brought = True
                    self._well()
        return brought

    def _handle(self, line: bytes) -> None:
        event = decode_event(line)
        if event.type == "BOOKMARK":
            self._progress.advance(version_of(event.object))
        elif event.type == "ERROR":
            raise APIError(*failure_of(event.object))
        else:
            document = self.resource.decode(event.object)
            if event.type == "DELETED":
                key = self._keyed(document)
                if self.stored_version(key) <= _version(document):
                    self._store.remove(key)
            elif self.stored_version(self._keyed(document)) <= _version(document):
                # A live read may have been ahead of the watch.
                self._store.put(document)
            self._progress.change(document["metadata"].get("resourceVersion") or self._progress.place)

    def _keyed(self, document: JSONObject) -> ObjectKey:
        return key_of(identified(document, self.resource))


async def _let_others_go_on() -> None:
    await asyncio.sleep(0)


def _is_server_fault(error: Exception) -> bool:
    """Return whether the apiserver answered that it cannot, as opposed to: it may not, or no answer at all."""
    return isinstance(error, APIError) and (error.code >= 500 or error.code == _TOO_MANY_REQUESTS)


def _version(document: JSONObject) -> int:
    return as_number(document["metadata"].get("resourceVersion") or "")
