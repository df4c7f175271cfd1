"""When a workload may be written: each write of one workload waits longer than the one before.

This bound holds for the workload itself, whoever causes the writes: another controller that changes it back, a webhook
that undoes each render, an apiserver that refuses it. It starts again when the request is another one (the hash that
the workload is to carry) and when the workload was left alone for long.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.control.queue import draw_jitter
from app.control.rate_limit import TokenBucket
from app.store import ObjectKey

# 2, 6, 18, 54 s …: written at 0, 2, 8 and 26 s, which is four times in the first minute and leaves room for spreading
# them by a fifth; a webhook that is restarted is asked again within seconds.
_FIRST_SECONDS: Final = 2.0
_FACTOR: Final = 3.0
# An apiserver or webhook that does not answer is an outage, which ends for all workloads at once.
_MAX_OUTAGE_SECONDS: Final = 60.0
# A workload that was left alone for twice its last pause, and this long, is not in conflict any more.
_QUIET_SECONDS: Final = 120.0


class _Attempt(NamedTuple):
    digest: str
    """What the workload was to carry."""
    writes: int
    """How many in a row."""
    last: float
    due: float
    reserved: bool = False
    """Whether ``due`` is a turn among all retries."""
    conflict: str = ""
    """What was wrong afterwards although the apiserver would store it: an identity of an assessment."""
    unproven: str = ""
    """The same where the apiserver could not be asked whether it would."""
    problem: str = ""
    """The same as text, ``""`` if nothing was."""


class Backoff:
    """The last writes of each workload that was written lately."""

    def __init__(self, *, retries_per_second: float, longest: float, jitter: Callable[[], float] = draw_jitter) -> None:
        """Prepare.

        Args:
            retries_per_second: Second and later writes, of all workloads together.
            longest: The longest pause, in seconds.
            jitter: Returns the factor that a pause is multiplied by.
        """
        self._retries: Final = TokenBucket(retries_per_second, burst=max(1, int(retries_per_second)))
        self._longest: Final = longest
        self._jitter: Final = jitter
        self._attempts: Final[dict[ObjectKey, _Attempt]] = {}

    def __len__(self) -> int:
        """Return how many workloads are remembered."""
        return len(self._attempts)

    def due(self, key: ObjectKey, digest: str, now: float) -> float:
        """Return when a workload may be written: ``now``, or the time of its turn among the retries.

        Args:
            key: The workload.
            digest: The hash that it is to carry.
            now: The time in seconds.
        """
        attempt = self._find_attempt(key, digest, now)
        if attempt is None:
            return now
        if attempt.due > now or attempt.reserved:
            return max(attempt.due, now)
        turn = self._retries.take(now)
        self._attempts[key] = attempt._replace(due=turn, reserved=True)
        return turn

    def wrote(self, key: ObjectKey, digest: str, now: float, *, conflict: str = "") -> None:
        """Remember a write that is about to be made.

        Args:
            key: The workload.
            digest: The hash that it is to carry.
            now: The time in seconds.
            conflict: The identity of what is wrong although the apiserver would store it; ``""`` keeps the known one.
        """
        before = self._find_attempt(key, digest, now) or _Attempt(
            digest, 0, now, now, reserved=False, conflict="", unproven="", problem=""
        )
        self._attempts[key] = before._replace(
            writes=before.writes + 1,
            last=now,
            due=now + self._pause(before.writes),
            reserved=False,
            conflict=conflict or before.conflict,
        )

    def ended(
        self, key: ObjectKey, problem: str, *, conflict: str = "", unproven: str = "", outage: bool = False
    ) -> None:
        """Remember how the last write ended.

        Args:
            key: The workload.
            problem: What is wrong, ``""`` if nothing is.
            conflict: The identity of what is wrong although the apiserver would store it.
            unproven: The same where the apiserver could not be asked whether it would.
            outage: Whether there was no answer.
        """
        attempt = self._attempts.get(key)
        if attempt is not None:
            due = min(attempt.due, attempt.last + _MAX_OUTAGE_SECONDS * self._jitter()) if outage else attempt.due
            self._attempts[key] = attempt._replace(problem=problem, conflict=conflict, unproven=unproven, due=due)

    def due_of(self, key: ObjectKey) -> float:
        """Return when a workload may be written again, or the distant past if it was not written lately."""
        attempt = self._attempts.get(key)
        return attempt.due if attempt else float("-inf")

    def problem(self, key: ObjectKey) -> str:
        """Return how the last write ended."""
        attempt = self._attempts.get(key)
        return attempt.problem if attempt else ""

    def conflict(self, key: ObjectKey) -> str:
        """Return what was wrong after the last write although the apiserver would store it."""
        attempt = self._attempts.get(key)
        return attempt.conflict if attempt else ""

    def unproven(self, key: ObjectKey) -> str:
        """Return what was wrong after the last write and could not be asked about."""
        attempt = self._attempts.get(key)
        return attempt.unproven if attempt else ""

    def forget(self, key: ObjectKey) -> None:
        """Forget a workload that is gone."""
        self._attempts.pop(key, None)

    def prune(self, now: float) -> None:
        """Forget the workloads that were left alone for long."""
        for key, attempt in list(self._attempts.items()):
            if self._is_quiet(attempt, now):
                del self._attempts[key]

    def _find_attempt(self, key: ObjectKey, digest: str, now: float) -> _Attempt | None:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.digest != digest or self._is_quiet(attempt, now):
            return None
        return attempt

    def _is_quiet(self, attempt: _Attempt, now: float) -> bool:
        return now - attempt.last > max(_QUIET_SECONDS, 2 * (attempt.due - attempt.last))

    def _pause(self, writes: int) -> float:
        return min(self._longest, _FIRST_SECONDS * _FACTOR ** min(writes, 16)) * self._jitter()
