"""Decides how long to wait for OpenYurt's controller of a subject, and when to nudge it.

OpenYurt's controller writes every workload after a change of the template. After an outage, 1.5 and later retry each
second. 1.4 does not retry a refused write until the subject changes. So fleethook first waits for the controller, then
nudges it by an annotation of the subject, waits again, and then touches the workloads itself.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from fleethook.engines.overrider.subject.binding import Binding
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import NUDGED_ANNOTATION

# OpenYurt 1.5 to 1.7 retry a refused write each second. Ten seconds allow for ten retries after an outage of the
# apiserver, and are a short delay for a subject whose controller does not run.
OWNER_SECONDS: Final = 10.0
# OpenYurt's controller is limited by the default QPS of a client in controller-runtime (pkg/client/config: GetConfig).
_OWNER_WRITES_PER_SECOND: Final = 20.0
# A nudge without effect is repeated after 1, 2, 4 … resyncs, up to some seven days at the default of ten minutes.
_MAX_DOUBLINGS: Final = 10


class Patience(NamedTuple):
    """Whether to wait for OpenYurt's controller of a subject to write first."""

    wait: bool
    """Whether its time is not over."""
    observed: bool
    """Whether its status reports that it has observed the present subject."""


class _Wait(NamedTuple):
    since: float
    """The time when the subject's spec changed, or when this controller started."""
    waiting: bool | None = None
    """Whether workloads with an override waited at the last reconciliation; None before the first one since then.

    Once no workload waits, OpenYurt's controller has caused no later difference.
    """
    behind: bool = False
    """Whether workloads without an override were outdated at the last reconciliation."""
    missing_since: float | None = None
    """The time since which a node pool lacks a workload."""
    nudged: float | None = None
    nudges: int = 0
    """The number of nudges in a row."""
    extended: float = float("-inf")
    """The time of the last successful nudge, which gives the controller its time again."""


class OwnerWaits:
    """The waits for the controllers of all subjects.

    Attributes:
        interval: Seconds between two nudges of a subject, doubled each time.
    """

    def __init__(self, *, seconds: float, interval: float, time: Callable[[], float]) -> None:
        """Prepare.

        Args:
            seconds: The time of a controller, in addition to the time for its writes.
            interval: Seconds between two nudges of a subject, doubled each time.
            time: Returns a monotonic time in seconds.
        """
        self._seconds: Final = seconds
        self.interval: Final = interval
        self._time: Final = time
        self._started = time()
        self._waits: Final[dict[Binding, _Wait]] = {}

    def __len__(self) -> int:
        """Return the number of subjects with a recorded wait."""
        return len(self._waits)

    @property
    def now(self) -> float:
        """The present time, on the clock of `until` and `trouble`."""
        return self._time()

    def start(self) -> None:
        """Give every controller its time from now on, because a new leader does not know its former writes."""
        self._started = self._time()
        self._waits.clear()

    def restart(self, binding: Binding) -> None:
        """Give a controller its time from now on, because its subject's spec changed."""
        former = self._waits.get(binding)
        fresh = _Wait(self._time())
        self._waits[binding] = fresh if former is None else fresh._replace(nudged=former.nudged, nudges=former.nudges)

    def keep(self, bindings: AbstractSet[Binding]) -> None:
        """Forget all subjects but these."""
        for binding in self._waits.keys() - bindings:
            del self._waits[binding]

    def limit(self, pools: int) -> float:
        """Return the time of the controller of a subject with so many node pools, in seconds."""
        return self._seconds + pools / _OWNER_WRITES_PER_SECOND

    def until(self, binding: Binding, *, pools: int) -> float:
        """Return the time until which the controller may write first."""
        wait = self._find_wait(binding)
        return max(wait.since, wait.extended) + self.limit(pools)

    def first_limit(self, binding: Binding, *, pools: int) -> float:
        """Return the time until which the controller may write first, without the time that nudges added."""
        return self._find_wait(binding).since + self.limit(pools)

    def patience(self, binding: Binding, *, pools: int, observed: bool) -> Patience:
        """Return whether to wait for the controller; ``observed`` tells whether it has observed the subject's spec."""
        over = self._find_wait(binding).waiting is False or self._time() >= self.until(binding, pools=pools)
        return Patience(not over, observed)

    def waited(self, binding: Binding) -> bool:
        """Return whether workloads with an override waited for the controller at the last reconciliation."""
        return bool(self._find_wait(binding).waiting)

    def note(self, binding: Binding, *, waiting: bool, behind: bool, missing: bool) -> None:
        """Record the result of a reconciliation.

        Args:
            binding: The subject.
            waiting: Whether a workload with an override waits for its owner.
            behind: Whether a workload without an override is outdated.
            missing: Whether a node pool lacks a workload.
        """
        wait = self._find_wait(binding)
        since = None if not missing else self._time() if wait.missing_since is None else wait.missing_since
        nudges = wait.nudges if waiting or behind or missing else 0
        self._waits[binding] = wait._replace(waiting=waiting, behind=behind, missing_since=since, nudges=nudges)

    def trouble(self, binding: Binding, *, pools: int) -> float | None:
        """Return the time when the controller is late, None if no workload is outdated or missing."""
        wait = self._find_wait(binding)
        starts = [] if wait.missing_since is None else [wait.missing_since]
        if wait.waiting or wait.behind:
            starts.append(wait.since)
        return min(starts) + self.limit(pools) if starts else None

    def should_nudge(self, binding: Binding, *, pools: int) -> bool:
        """Return whether the controller is late and the pause since the last nudge is over."""
        over = self.trouble(binding, pools=pools)
        if over is None or self._time() < over:
            return False
        wait = self._find_wait(binding)
        pause = self.interval * 2 ** min(max(wait.nudges - 1, 0), _MAX_DOUBLINGS)
        return wait.nudged is None or self._time() - wait.nudged >= pause

    def nudged(self, binding: Binding, *, well: bool) -> None:
        """Record a nudge; ``well`` tells whether its annotation was written."""
        wait, now = self._find_wait(binding), self._time()
        self._waits[binding] = wait._replace(
            nudged=now, nudges=wait.nudges + 1, extended=now if well else wait.extended
        )

    def _find_wait(self, binding: Binding) -> _Wait:
        return self._waits.get(binding) or _Wait(self._started)


def nudged_lately(subject: JSONObject, *, now: datetime, seconds: float) -> bool:
    """Return whether this or another leader nudged the subject's controller within some seconds."""
    text = as_object(subject["metadata"].get("annotations")).get(NUDGED_ANNOTATION)
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
        return at is not None and abs(now - at) < timedelta(seconds=seconds)
    except (ValueError, TypeError):
        return False  # Another client wrote the text, or it has no time zone.
