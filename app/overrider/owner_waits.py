"""How long to wait for a subject's controller, and when to nudge it.

OpenYurt's controller writes every workload after a change of the template, and after an outage it does so again: 1.5
and later retry each second, 1.4 does not retry a refused write at all until something else changes the subject. So
fleethook waits for the controller at first, then nudges it by an annotation on the subject, waits once more, and then
touches the workloads itself.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.model.json import JSONObject, as_object
from app.model.openyurt import NUDGED_ANNOTATION
from app.overrider.binding import Binding

# OpenYurt 1.5 to 1.7 repeat a refused write after a second, and again after each failure; ten of these are enough for
# an apiserver that has just come back, and few enough for a subject whose controller does not run.
OWNER_SECONDS: Final = 10.0
# controller-runtime's default limit of a client (config.GetConfig, QPS): how fast a controller writes workloads.
_OWNER_WRITES_PER_SECOND: Final = 20.0
# A nudge that did not help is repeated after 1, 2, 4 … resyncs, up to some ten days at the default of ten minutes.
_MAX_DOUBLINGS: Final = 10


class Patience(NamedTuple):
    """Whether to wait for the controller of a workload's owner to write first."""

    wait: bool
    """Whether the time for that is not over."""
    observed: bool
    """Whether that controller has seen the subject as it is now, as far as it says."""


class _Wait(NamedTuple):
    since: float
    """When the subject's spec changed, or the controller started."""
    waiting: bool | None = None
    """Whether workloads with an override waited for the owner at the last look; None before the first look since then.

    Once none waits, no difference from then on is the owner's.
    """
    behind: bool = False
    """Whether workloads without an override lacked the template at the last look."""
    missing_since: float | None = None
    """Since when pools lack a workload."""
    nudged: float | None = None
    nudges: int = 0
    """How many in a row."""
    extended: float = float("-inf")
    """When the owner was nudged successfully, which gives it time once more."""


class OwnerWaits:
    """The subjects whose controller has to write, or had to.

    Attributes:
        interval: Between two nudges of a subject, in seconds, doubled each time.
    """

    def __init__(self, *, seconds: float, interval: float, time: Callable[[], float]) -> None:
        """Prepare.

        Args:
            seconds: How long a controller is given, besides the time for its writes.
            interval: Between two nudges of a subject, in seconds, doubled each time.
            time: Returns a monotonic time in seconds.
        """
        self._seconds: Final = seconds
        self.interval: Final = interval
        self._time: Final = time
        self._started = time()
        self._waits: Final[dict[Binding, _Wait]] = {}

    def __len__(self) -> int:
        """Return how many subjects are remembered."""
        return len(self._waits)

    @property
    def now(self) -> float:
        """The time, on the clock of `until` and `trouble`."""
        return self._time()

    def start(self) -> None:
        """Give every controller its time from now on: nobody knows what it wrote while nobody watched."""
        self._started = self._time()
        self._waits.clear()

    def restart(self, binding: Binding) -> None:
        """Give a controller its time from now on, because the subject's spec changed."""
        former = self._waits.get(binding)
        fresh = _Wait(self._time())
        self._waits[binding] = fresh if former is None else fresh._replace(nudged=former.nudged, nudges=former.nudges)

    def keep(self, bindings: AbstractSet[Binding]) -> None:
        """Forget all subjects but these."""
        for binding in self._waits.keys() - bindings:
            del self._waits[binding]

    def limit(self, pools: int) -> float:
        """Return how long the controller of a subject with so many pools is given, in seconds."""
        return self._seconds + pools / _OWNER_WRITES_PER_SECOND

    def until(self, binding: Binding, *, pools: int) -> float:
        """Return until when the controller has time."""
        wait = self._find_wait(binding)
        return max(wait.since, wait.extended) + self.limit(pools)

    def first_limit(self, binding: Binding, *, pools: int) -> float:
        """Return until when the controller had time after the subject's last change, whatever nudges gave it since."""
        return self._find_wait(binding).since + self.limit(pools)

    def patience(self, binding: Binding, *, pools: int, observed: bool) -> Patience:
        """Return whether to wait for the controller; ``observed`` is whether it has seen the subject's spec."""
        over = self._find_wait(binding).waiting is False or self._time() >= self.until(binding, pools=pools)
        return Patience(not over, observed)

    def waited(self, binding: Binding) -> bool:
        """Return whether workloads with an override waited for the controller at the last look."""
        return bool(self._find_wait(binding).waiting)

    def note(self, binding: Binding, *, waiting: bool, behind: bool, missing: bool) -> None:
        """Remember what the last look found.

        Args:
            binding: The subject.
            waiting: Whether a workload with an override waits for its owner.
            behind: Whether a workload without one lacks what the template says.
            missing: Whether a pool lacks a workload.
        """
        wait = self._find_wait(binding)
        since = None if not missing else self._time() if wait.missing_since is None else wait.missing_since
        nudges = wait.nudges if waiting or behind or missing else 0
        self._waits[binding] = wait._replace(waiting=waiting, behind=behind, missing_since=since, nudges=nudges)

    def trouble(self, binding: Binding, *, pools: int) -> float | None:
        """Return when the owner's time is over, of a subject whose workloads lag or miss; None if all is well."""
        wait = self._find_wait(binding)
        starts = [] if wait.missing_since is None else [wait.missing_since]
        if wait.waiting or wait.behind:
            starts.append(wait.since)
        return min(starts) + self.limit(pools) if starts else None

    def should_nudge(self, binding: Binding, *, pools: int) -> bool:
        """Return whether the owner's time is over and a nudge may help."""
        over = self.trouble(binding, pools=pools)
        if over is None or self._time() < over:
            return False
        wait = self._find_wait(binding)
        pause = self.interval * 2 ** min(max(wait.nudges - 1, 0), _MAX_DOUBLINGS)
        return wait.nudged is None or self._time() - wait.nudged >= pause

    def nudged(self, binding: Binding, *, well: bool) -> None:
        """Remember a nudge, and whether it was written."""
        wait, now = self._find_wait(binding), self._time()
        self._waits[binding] = wait._replace(
            nudged=now, nudges=wait.nudges + 1, extended=now if well else wait.extended
        )

    def _find_wait(self, binding: Binding) -> _Wait:
        return self._waits.get(binding) or _Wait(self._started)


def nudged_lately(subject: JSONObject, *, now: datetime, seconds: float) -> bool:
    """Return whether a leader, perhaps another one, nudged the subject's controller within some seconds."""
    text = as_object(subject["metadata"].get("annotations")).get(NUDGED_ANNOTATION)
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
        return at is not None and abs(now - at) < timedelta(seconds=seconds)
    except (ValueError, TypeError):
        return False  # Somebody else's text, or one without a time zone.
