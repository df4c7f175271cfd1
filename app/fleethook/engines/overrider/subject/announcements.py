"""Announcements: overriders that are about to be stored, in an annotation of the webhook configuration.

`Announcer` adds the subject of a new overrider to the match conditions before the overrider is stored. The leader would
add it some milliseconds later, or after a crash when the next leader is elected. kube-apiserver would not send a
workload that is created in between, and the controller would roll it out again later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from fleethook.cluster.api_errors import CONFLICT, NOT_FOUND, APIError, UnreachableError
from fleethook.engines.overrider.subject.bound_overriders import subject_of
from fleethook.engines.overrider.subject.match_condition_texts import SelectedSubjects, SubjectName
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.json import JSON, JSONObject

if TYPE_CHECKING:
    from fleethook.engines.overrider.subject.match_condition_writer import ConditionClient, WorkloadWebhooks

_log: Final = logging.getLogger(__name__)

# The configuration was deleted or changed after it was read.
_CONFLICTS: Final = (NOT_FOUND, CONFLICT)
_MAX_TRIES: Final = 5
# A part of the five seconds that kube-apiserver waits for the webhook; earlier reads take up to three.
_MAX_SECONDS: Final = 1.5

ANNOUNCED_ANNOTATION: Final = "fleethook.io/announced"
# kube-apiserver limits the annotations of an object to 256 KiB (TotalAnnotationSizeLimitB). 64 KiB hold about 700
# overriders.
MAX_ANNOTATION_BYTES: Final = 64 * 1024
ANNOUNCED_SECONDS: Final = 10.0
"""Time for which an announced subject stays in the match conditions without an overrider. kube-apiserver stores an
admitted overrider within milliseconds."""
MAX_EXPIRED: Final = 50
"""The next write of the conditions drops expired announcements. This many of them cause a write."""


class Announcement(NamedTuple):
    """An overrider that is about to be stored."""

    subject: SubjectName
    overrider: str
    """The uid of the overrider, ``""`` if only the subject is known."""


_decode: Final = msgspec.json.Decoder(list[Announcement]).decode


def read_announcements(annotation: JSON) -> tuple[Announcement, ...]:
    """Return the announcements in the annotation, oldest first; none if the annotation has another format."""
    try:
        return tuple(_decode(annotation)) if isinstance(annotation, str) else ()
    except msgspec.DecodeError:
        return ()  # another client wrote the annotation


def write_announcements(announcements: Sequence[Announcement]) -> str:
    """Return the value of the annotation; the oldest announcements are dropped if it would be too long."""
    kept: list[bytes] = []
    size = len("[]")
    for announcement in reversed(announcements):
        text = msgspec.json.encode(announcement)
        size += len(text) + len(",")
        if size > MAX_ANNOTATION_BYTES:
            break
        kept.append(text)
    return f"[{b','.join(reversed(kept)).decode()}]"


async def _skip_waiting(_resource_version: str) -> None:
    """Wait for nothing."""


class Announcer:
    """Adds subjects to the match condition. Only the leader removes subjects."""

    def __init__(
        self,
        client: "ConditionClient",
        subjects: Callable[[], frozenset[SubjectName]],
        *,
        seen: Callable[[str], Awaitable[object]] = _skip_waiting,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to, as far as this replica knows.
            seen: Waits until a watch has received the configuration of a resourceVersion. kube-apiserver informs its
                own webhook client at the same time.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._seen: Final = seen
        # Reviews of one replica take turns, so that only writes of other replicas cause conflicts.
        self._turn: Final = asyncio.Lock()

    async def announce(self, announcement: Announcement) -> None:
        """Make kube-apiserver send the workloads of an overrider's subject from now on.

        After a failure, which is logged, the leader adds the subject later.

        Args:
            announcement: The overrider and its subject.
        """
        end = asyncio.get_running_loop().time() + _MAX_SECONDS
        written: str | None = ""
        try:
            async with asyncio.timeout_at(end), self._turn:
                written = await self._try(announcement)
            problem = "other replicas keep changing the configuration" if written is None else ""
        except TimeoutError:
            problem = f"no response within {_MAX_SECONDS} s"
        except (APIError, UnreachableError) as error:
            problem = str(error)
        if problem:
            subject = announcement.subject
            _log.warning(
                "cannot announce the subject %s %s/%s of a new overrider, the leader adds it later: %s",
                subject.kind, subject.namespace, subject.name, problem,
            )  # fmt: skip
        elif written:
            await self._wait_until_seen(written, end)

    async def _wait_until_seen(self, resource_version: str, end: float) -> None:
        """Wait for the configuration; a late watch does not fail the request."""
        try:
            async with asyncio.timeout_at(end):
                await self._seen(resource_version)
        except TimeoutError:
            _log.info("the watch has not received the changed webhook configuration in time")

    async def _try(self, announcement: Announcement) -> str | None:
        """Return the resourceVersion of the write, ``""`` if no write was needed, None if all writes failed."""
        for _ in range(_MAX_TRIES):
            registered = await self._client.read()
            if registered is None:
                return ""
            subjects = self._select(registered, announcement.subject)
            if announcement in registered.announcements and registered.selects(subjects):
                return ""
            announcements = [*(one for one in registered.announcements if one != announcement), announcement]
            try:
                return await self._client.write(registered, subjects, announcements=announcements)
            except APIError as error:
                if error.code not in _CONFLICTS:
                    raise
        return None

    def _select(self, registered: "WorkloadWebhooks", subject: SubjectName) -> SelectedSubjects:
        """Return the registered selection with a subject whose workloads kube-apiserver always sends."""
        # An installer registers no list; the next leader adds the subjects that this replica does not know.
        selection = SelectedSubjects(self._subjects()) if registered.listed is None else registered.listed
        return (
            selection
            if selection.spills(subject)
            else SelectedSubjects(selection.subjects | {subject}, selection.namespaces)
        )


class Announce(Protocol):
    """Adds the subject of an overrider to the webhook configuration, so that reviews of its workloads arrive."""

    async def __call__(self, announcement: Announcement) -> None:
        """Add the subject."""


async def announce_overrider(request: AdmissionRequest, response: Response, *, announce: Announce) -> None:
    """Announce the subject of an overrider that is about to be created. The subject is immutable afterwards."""
    if request.operation != "CREATE" or request.sub_resource or request.dry_run or not response.allowed:
        return
    subject = subject_of(request.object)
    if subject is not None:
        # kube-apiserver sets the uid of a new object before it calls webhooks.
        uid = _get_uid(request.object) or request.uid
        await announce(Announcement(SubjectName(request.namespace, *subject), uid))


def _get_uid(overrider: JSONObject) -> str:
    return str(overrider["metadata"].get("uid") or "")
