"""Exponential backoff for the writes of each workload.

The backoff belongs to the workload, so it also bounds conflicts: another controller reverts the render, a webhook
undoes it, or the apiserver refuses it. The controller resets the backoff when it requests another render (another
hash), and when it has not written the workload for a long time.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.work.queue import draw_jitter

# Pauses of 2, 6, 18, 54 s … make four writes in the first minute, at 0, 2, 8 and 26 s, with room for 20 % of jitter.
# The first retries come within seconds, because a webhook that restarts is unavailable only that long.
_FIRST_SECONDS: Final = 2.0
_FACTOR: Final = 3.0
# An outage of the apiserver or a webhook ends for all workloads at once.
_MAX_OUTAGE_SECONDS: Final = 60.0
# After this long without a write, and twice the last pause, the conflict is over.
_QUIET_SECONDS: Final = 120.0


class _Attempt(NamedTuple):
    digest: str
    """The hash that the write requested."""
    writes: int
    """The number of writes in a row."""
    last: float
    due: float
    problem: str = ""
    """The problem after the write as a message, ``""`` for none."""


class Backoff:
    """The recent writes of each workload."""

    def __init__(self, *, longest: float, jitter: Callable[[], float] = draw_jitter) -> None:
        """Prepare.

        Args:
            longest: The longest pause, in seconds.
            jitter: Returns a factor for each pause.
        """
        self._longest: Final = longest
        self._jitter: Final = jitter
        self._attempts: Final[dict[ObjectKey, _Attempt]] = {}

    def __len__(self) -> int:
        """Return the number of workloads with recent writes."""
        return len(self._attempts)

    def due(self, key: ObjectKey, digest: str, now: float) -> float:
        """Return the time when a workload may be written: ``now`` or later.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            now: The time in seconds.
        """
        attempt = self._find_attempt(key, digest, now)
        return now if attempt is None else max(attempt.due, now)

    def wrote(self, key: ObjectKey, digest: str, now: float) -> None:
        """Record a write before it is sent.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            now: The time in seconds.
        """
        before = self._find_attempt(key, digest, now) or _Attempt(digest, 0, now, now)
        self._attempts[key] = before._replace(writes=before.writes + 1, last=now, due=now + self._pause(before.writes))

    def ended(self, key: ObjectKey, problem: str, *, outage: bool = False) -> None:
        """Record the result of the last write.

        Args:
            key: The workload.
            problem: The problem as a message, ``""`` for none.
            outage: Whether the apiserver or a webhook did not answer.
        """
        attempt = self._attempts.get(key)
        if attempt is not None:
            due = min(attempt.due, attempt.last + _MAX_OUTAGE_SECONDS * self._jitter()) if outage else attempt.due
            self._attempts[key] = attempt._replace(problem=problem, due=due)

    def due_of(self, key: ObjectKey) -> float:
        """Return the time when a workload may be written again, minus infinity without a recent write."""
        attempt = self._attempts.get(key)
        return attempt.due if attempt else float("-inf")

    def problem(self, key: ObjectKey) -> str:
        """Return the problem after the last write, ``""`` for none."""
        attempt = self._attempts.get(key)
        return attempt.problem if attempt else ""

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted workload."""
        self._attempts.pop(key, None)

    def prune(self, now: float) -> None:
        """Forget the workloads without a write for a long time."""
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
