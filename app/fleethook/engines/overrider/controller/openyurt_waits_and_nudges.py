"""Waits for OpenYurt's controllers to write the changes of their subjects, and makes late ones reconcile them: a nudge.

OpenYurt 1.4 logs a refused write and does not retry it. If a subject was edited or created while fleethook was
unavailable, its workloads stay outdated until the subject changes. So the leader changes an annotation of the subject.
"""

import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.apiserver_connection import MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.engines.overrider.controller.status_and_events import StatusReporter
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.subject.subject_and_pools import is_behind, reports_refusal
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import API_VERSION

_log: Final = logging.getLogger(__name__)

# OpenYurt 1.5 to 1.7 retry a refused write each second. Ten seconds allow for ten retries after an outage of the
# apiserver, and are a short delay for a subject whose controller does not run.
OWNER_SECONDS: Final = 10.0
# OpenYurt's controller is limited by the default QPS of a client in controller-runtime (pkg/client/config: GetConfig).
_OWNER_WRITES_PER_SECOND: Final = 20.0
# A nudge without effect is repeated after 1, 2, 4 … resyncs, up to some seven days.
_MAX_DOUBLINGS: Final = 10
_MAX_NAMED: Final = 5
_REFUSED: Final = " OpenYurt 1.4 does not retry a write that was refused, for example while fleethook was away."
NUDGED_ANNOTATION: Final = "fleethook.io/nudged-at"
_NEVER: Final = float("inf")


class _Wait(NamedTuple):
    """A subject whose workloads are missing or outdated."""

    generation: JSON
    """The generation of the subject."""
    since: float
    """The time when this controller first saw that with this generation."""
    seen: float
    """The time of the last reconciliation: it decides about the end of a wait, because a timer may end too early."""
    waiting: bool = False
    """Whether workloads with an override waited at the last reconciliation."""
    nudged: float = -_NEVER
    nudges: int = 0
    """The number of nudges in a row."""


class OwnerWaits:
    """The waits for the controllers of all subjects, each with a bound."""

    def __init__(
        self,
        connection: Connection,
        source: KubernetesSource,
        reporter: StatusReporter,
        *,
        seconds: float,
        interval: float,
        time: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            source: The watch of the subjects.
            reporter: Writes events.
            seconds: The time of a controller, in addition to the time for its writes.
            interval: Seconds between two nudges of a subject, doubled each time.
            time: Returns a monotonic time in seconds.
            now: Returns the time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._reporter: Final = reporter
        self._seconds: Final = seconds
        self._interval: Final = interval
        self._time: Final = time
        self._now: Final = now
        self._waits: Final[dict[Binding, _Wait]] = {}

    def __len__(self) -> int:
        """Return the number of subjects with a wait."""
        return len(self._waits)

    def keep(self, bindings: AbstractSet[Binding]) -> None:
        """Forget all subjects but these."""
        for binding in self._waits.keys() - bindings:
            del self._waits[binding]

    def owner_writes_first(self, at: SubjectState) -> bool:
        """Return whether the subject's controller shall write the workloads first: it is behind, and has time left.

        Its time begins when `nudge_late_owner` first saw that, and again with a nudge. It is `OWNER_SECONDS`, and one
        second for each 20 node pools.
        """
        if at.subject is None or at.is_abandoned:
            return False
        return is_behind(at.subject, lacks_pools=bool(at.missing)) and self._time() < self._end(at)

    async def nudge_late_owner(self, at: SubjectState) -> None:
        """Begin or end the wait for the controller of a subject, and nudge the controller if it is late."""
        wait = self._note(at)
        if wait is None or at.subject is None or at.is_abandoned:
            return
        # OpenYurt 1.7.0 never reports the generation of a set with StatefulSets, though it has written all of them.
        has_work = at.missing or wait.waiting or reports_refusal(at.subject, lacks_pools=False)
        if at.pools and has_work and not at.other_version and self._should_nudge(at, wait):
            await self._nudge(at, at.subject, wait)

    def note(self, binding: Binding, *, waiting: bool) -> None:
        """Record whether workloads with an override wait for the controller of a subject."""
        if (wait := self._waits.get(binding)) is not None:
            self._waits[binding] = wait._replace(waiting=waiting)

    def is_late(self, at: SubjectState) -> bool:
        """Return whether the subject's controller has left workloads missing or outdated for longer than its time."""
        wait = self._waits.get(at.binding)
        return wait is not None and wait.seen >= wait.since + self._limit(at)

    def find_orphans(self, at: SubjectState) -> tuple[str, ...]:
        """Return the workloads without an owner, for messages.

        A workload whose owner was deleted counts only after some time. Usually the garbage collector deletes it.
        """
        return tuple(map(str, (*at.orphans, *(at.dangling if self.is_late(at) else ()))))

    def next_time(self, at: SubjectState) -> float:
        """Return the time when the controller's time is over; infinity if no workload is missing or outdated then."""
        wait, end = self._waits.get(at.binding), self._end(at)
        return end if wait is not None and end > wait.seen else _NEVER

    def _note(self, at: SubjectState) -> _Wait | None:
        """Begin a wait if the subject needs one, with a new one for each generation; return it."""
        subject = at.subject
        lacks = bool(at.missing)
        if not (lacks or at.dangling or (subject is not None and is_behind(subject, lacks_pools=lacks))):
            self._waits.pop(at.binding, None)
            return None
        generation, now = None if subject is None else subject["metadata"].get("generation"), self._time()
        wait = self._waits.get(at.binding) or _Wait(generation, now, now)
        if wait.generation != generation:
            wait = wait._replace(generation=generation, since=now, waiting=False)
        wait = wait._replace(seen=now)
        self._waits[at.binding] = wait
        return wait

    def _limit(self, at: SubjectState) -> float:
        return self._seconds + len(at.pools) / _OWNER_WRITES_PER_SECOND

    def _end(self, at: SubjectState) -> float:
        """Return the end of the wait. A nudge gives the controller its time once more."""
        wait = self._waits.get(at.binding)
        return -_NEVER if wait is None else max(wait.since, wait.nudged) + self._limit(at)

    def _should_nudge(self, at: SubjectState, wait: _Wait) -> bool:
        pause = self._interval * 2 ** min(max(wait.nudges - 1, 0), _MAX_DOUBLINGS)
        return self.is_late(at) and self._time() - wait.nudged >= pause

    async def _nudge(self, at: SubjectState, subject: JSONObject, wait: _Wait) -> None:
        self._waits[at.binding] = wait._replace(nudged=self._time(), nudges=wait.nudges + 1)
        path = self._source.informer(at.binding.group_kind).resource.in_namespace(at.binding.namespace, at.binding.name)
        body: JSONObject = {
            "metadata": {"annotations": {NUDGED_ANNOTATION: self._now().strftime("%Y-%m-%dT%H:%M:%SZ")}}
        }
        try:
            await self._connection.request(
                "PATCH", self._source.scope(at.binding.cluster) + path, body=body, content_type=MERGE_PATCH
            )
        except (APIError, UnreachableError) as error:
            _log.warning("%s: %s; cannot set annotation %s: %s", at.name, _describe_lack(at), NUDGED_ANNOTATION, error)
            return
        cause = _REFUSED if subject.get("apiVersion") == API_VERSION else ""
        message = (
            f"{_describe_lack(at)}.{cause} fleethook has set annotation {NUDGED_ANNOTATION}, so that the controller "
            "reconciles the subject again"
        )
        _log.warning("%s: %s", at.name, message)
        await self._reporter.record_event(at.binding, subject, "Warning", "OwnerNudged", message)


def _describe_lack(at: SubjectState) -> str:
    """Return the work that the controller of a subject has not done yet, for messages."""
    if not at.missing:
        return "its controller does not report that all workloads have its template"
    return f"there is no workload in node pool {list_names(at.missing, most=_MAX_NAMED)}"
