"""Choose the version of a resource to read: the best one that the apiserver serves.

Served versions change at run time: an upgrade of OpenYurt adds v1beta1 to the CustomResourceDefinition of YurtAppSets,
and a downgrade removes it. Responses of the apiserver decide. The definition only tells when a request is worthwhile.
Without the right to read definitions, fleethook asks at regular intervals.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.resources import WatchedResource
from fleethook.model.json import JSONObject, as_object

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
    versions = as_object(definition.get("spec")).get("versions")
    listed = versions if isinstance(versions, list) else []
    return frozenset(
        str(one["name"]) for one in listed if isinstance(one, dict) and one.get("served") is True and "name" in one
    )
