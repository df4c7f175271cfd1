"""Remembers requested values that the apiserver does not store, so that the controller does not repeat requests.

An apiserver drops unknown members, adds defaults and omits empty members. It treats the same request in the same way
again, so repeating the request changes nothing.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.render.member_differences import Difference

MAX_WORKLOADS: Final = 20_000
# A status names three. Pointers may be long.
MAX_POINTERS: Final = 10


class Unstored(NamedTuple):
    """The values of one request that the apiserver did not store."""

    identity: str
    """The identity of the drift, which changes with the requested and with the stored values."""
    lost: tuple[str, ...]
    """Pointers of requested values that are missing: unknown members, or members that a webhook changes."""
    insignificant: tuple[str, ...]
    """Pointers of empty values and defaults."""


def summarize_unstored(identity: str, differences: Sequence[Difference]) -> Unstored:
    """Summarize the differences that are left after a request."""
    lost = [one.pointer for one in differences if not one.insignificant]
    rest = [one.pointer for one in differences if one.insignificant]
    return Unstored(identity, tuple(lost[:MAX_POINTERS]), tuple(rest[:MAX_POINTERS]))


class UnstoredValues:
    """The unstored values of workloads; the oldest are evicted first."""

    def __init__(self, *, max_workloads: int = MAX_WORKLOADS) -> None:
        """Remember at most ``max_workloads`` workloads."""
        self._max_workloads: Final = max_workloads
        self._known: Final[OrderedDict[ObjectKey, Unstored]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of workloads with unstored values."""
        return len(self._known)

    def get(self, key: ObjectKey) -> Unstored | None:
        """Return the unstored values of a workload, None if it has none."""
        return self._known.get(key)

    def explains(self, key: ObjectKey, identity: str) -> bool:
        """Return whether the apiserver is known not to store exactly these differences."""
        known = self._known.get(key)
        return known is not None and known.identity == identity

    def remember(self, key: ObjectKey, found: Unstored) -> None:
        """Remember the unstored values of a workload."""
        self._known.pop(key, None)
        self._known[key] = found
        if len(self._known) > self._max_workloads:
            self._known.popitem(last=False)

    def forget(self, key: ObjectKey) -> None:
        """Forget a workload that was deleted, or that has no unstored values any more."""
        self._known.pop(key, None)

    def forget_lost(self, *, most: int) -> None:
        """Forget the oldest lost values, so that the controller requests them again: their webhook may be gone.

        Args:
            most: The number of workloads to forget; the next call continues with the others.
        """
        lost = (key for key, known in self._known.items() if known.lost)
        for key in list(islice(lost, most)):
            del self._known[key]
