"""Decides about one workload: the next step of the controller, and the reason for it.

The controller acts on the decision, and status and events report it. `KnownDrifts` keeps the facts about stored
workloads: the drifts of the last comparisons, and the values that the apiserver does not store.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.render.stored_workload_comparison import Drift, MemberDifference
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.formats.text import list_names

_log: Final = logging.getLogger(__name__)

# Pointers may be long.
_MAX_POINTERS: Final = 10
_MAX_LOGGED_POINTERS: Final = 5
_MAX_NAMED_POINTERS: Final = 3
"""Pointers in a message about a workload that still differs."""


class Unstored(NamedTuple):
    """The values of one request that the apiserver did not store."""

    identity: str
    """The identity of the drift, which changes with the requested and with the stored values."""
    lost: tuple[str, ...]
    """Pointers of requested values that are missing: unknown members, or members that a webhook changes."""
    insignificant: tuple[str, ...]
    """Pointers of empty values and defaults."""


def summarize_unstored(identity: str, differences: Sequence[MemberDifference]) -> Unstored:
    """Summarize the differences that are left after a request."""
    lost = [difference.pointer for difference in differences if not difference.insignificant]
    rest = [member_difference.pointer for member_difference in differences if member_difference.insignificant]
    return Unstored(identity, tuple(lost[:_MAX_POINTERS]), tuple(rest[:_MAX_POINTERS]))


class Action(Enum):
    """The next step of the controller for a workload."""

    LEAVE = auto()
    """Do nothing until an input or the workload changes: nothing is left to do, or no write can succeed."""
    WAIT = auto()
    """Wait until the controller of its owner has written the changed template."""
    ACCEPT = auto()
    """Remember the differences as values that the apiserver does not store."""
    TOUCH = auto()
    """Touch the workload, so that kube-apiserver calls the webhook."""
    RETRY = auto()
    """Touch the workload again after a pause."""


class Decision(NamedTuple):
    """The next step for a workload, with its reason."""

    action: Action = Action.LEAVE
    problem: str = ""
    """The reason why the workload is not as its overrider requests, as a message; ``""`` if it is."""
    lost: bool = False
    """Whether the problem is that the apiserver does not store the requested values."""
    notes: tuple[str, ...] = ()
    """Pointers of empty values and defaults that the apiserver stores differently. These are no problem."""
    undone_scale: str = ""
    """`Drift.scale` of the drift that a touch has ended."""


class Result(NamedTuple):
    """The state of one workload after a reconciliation."""

    pool: str
    kind: str
    workload: str
    hash: str
    """The expected value of ``fleethook.io/rendered``, ``""`` if no entry applies to the pool."""
    generation: int
    decision: Decision
    had: str = ""
    """The hash in its annotation before."""
    again: float | None = None
    """The time of the next attempt, None to wait for a change."""

    @property
    def error(self) -> str:
        """The error, ``""`` if the workload is rendered."""
        return self.decision.problem

    @property
    def waits(self) -> bool:
        """Whether the only error is that the owner's controller must write first."""
        return self.decision.action is Action.WAIT

    @property
    def counts(self) -> bool:
        """Whether the overrider applies to this workload, or an error is to be reported."""
        return bool(self.hash or self.error)


class KnownDrift(NamedTuple):
    """The drift that the last comparison of a workload found; members as of `Drift`."""

    identity: str
    pointers: tuple[str, ...]
    scale: str
    error: str


class KnownDrifts:
    """The drifts that the last comparisons of workloads found.

    Attributes:
        unstored: The requested values that the apiserver does not store.
    """

    def __init__(self) -> None:
        self.unstored: Final[dict[ObjectKey, Unstored]] = {}
        self._drifts: Final[dict[ObjectKey, KnownDrift]] = {}

    def find(self, key: ObjectKey) -> KnownDrift | None:
        """Return the drift of a workload, None if it has none."""
        return self._drifts.get(key)

    def note(self, key: ObjectKey, drift: Drift) -> str:
        """Remember the drift of a workload, unless `unstored` explains it; return its identity."""
        identity = drift.identity
        if not identity:
            self.unstored.pop(key, None)
        unstored = self.unstored.get(key)
        if not identity or (unstored is not None and unstored.identity == identity):
            self._drifts.pop(key, None)
            return ""
        self._drifts[key] = KnownDrift(identity, drift.pointers[:_MAX_NAMED_POINTERS], drift.scale, drift.error)
        return identity

    def note_unstored(self, key: ObjectKey, drift: Drift) -> None:
        """Remember that the apiserver does not store the values that are left after a write."""
        self.unstored[key] = summarize_unstored(drift.identity, drift.differences)
        known = self._drifts.get(key)
        if known is not None and known.identity == drift.identity:  # Another one is of a newer version.
            del self._drifts[key]
        pointers = ", ".join(drift.pointers[:_MAX_LOGGED_POINTERS])
        _log.info(
            "%s %s/%s: the apiserver does not store the requested values of %s", key.group_kind.kind, *key[2:], pointers
        )

    def recheck_lost(self, find_subject: Callable[[ObjectKey], Binding | None]) -> Iterator[Binding]:
        """Count the values that the apiserver did not store as drifts again, and yield the subjects of their workloads.

        Another webhook that changed them may be gone.

        Args:
            find_subject: Returns the subject of a workload, None if the workload is gone or has none.
        """
        for key, known in [item for item in self.unstored.items() if item[1].lost]:
            del self.unstored[key]
            binding = find_subject(key)
            if binding is not None:
                self._drifts[key] = KnownDrift(known.identity, known.lost[:_MAX_NAMED_POINTERS], "", "")
                yield binding

    def forget(self, key: ObjectKey) -> None:
        """Forget a workload without subject."""
        self._drifts.pop(key, None)
        self.unstored.pop(key, None)

    def clear(self) -> None:
        """Forget the drifts of all workloads."""
        self._drifts.clear()


def decide(
    binding: Binding, *, changed: bool, drift: KnownDrift | None, unstored: Unstored | None, waits: bool
) -> Decision:
    """Decide about a stored workload.

    Args:
        binding: The subject.
        changed: Whether the hash in the workload's annotation differs from the hash of its plan.
        drift: The drift of the last comparison.
        unstored: The values that the apiserver is known not to store.
        waits: Whether the controller of the subject shall write first.
    """
    if changed:
        return _wait(binding) if waits else Decision(Action.TOUCH)
    if drift is None:
        return leave_with(unstored)
    # After an error, a write cannot succeed until an input or the workload changes.
    return Decision(problem=drift.error) if drift.error else Decision(Action.TOUCH)


def decide_after_write(drift: Drift, *, rendered: bool) -> Decision:
    """Decide about a workload that was touched.

    Args:
        drift: Its drift from its plan.
        rendered: Whether the webhook was called for this write, and has rendered the plan. The apiserver then does not
            store the values that still differ, and would not store them after another write.
    """
    if drift.error:
        return Decision(problem=drift.error)
    if drift.is_in_sync and rendered:
        return Decision()
    if rendered:
        return leave_with(summarize_unstored(drift.identity, drift.differences))._replace(action=Action.ACCEPT)
    return retry(drift.pointers, scale=drift.scale)


def leave_with(unstored: Unstored | None) -> Decision:
    """Return the decision about a workload for which the apiserver stores as much of the request as it ever will."""
    if unstored is None:
        return Decision()
    problem = _describe_lost(unstored.lost) if unstored.lost else ""
    return Decision(Action.LEAVE, problem, bool(unstored.lost), unstored.insignificant)


def retry(pointers: Sequence[str], *, scale: str = "") -> Decision:
    """Return the decision about a workload that differs at some pointers after a write.

    Args:
        pointers: The pointers.
        scale: See `Drift`.
    """
    if scale and len(pointers) == 1:
        return Decision(Action.RETRY, scale)
    where = list_names(pointers) or "its annotation fleethook.io/rendered"
    text = (
        f"re-render requested, but {where} still differs: check that the webhook is registered, and that no other "
        f"webhook or controller reverts it{scale and '; '}{scale}"
    )
    return Decision(Action.RETRY, text)


def _wait(binding: Binding) -> Decision:
    owner = f"{binding.group_kind.kind} {binding.name}"
    return Decision(Action.WAIT, f"waiting until the controller of {owner} has written the changed template")


def _describe_lost(pointers: Sequence[str]) -> str:
    return (
        f"the apiserver did not keep {list_names(pointers)}: check the path for a misspelled field, and whether "
        "another webhook changes it"
    )
