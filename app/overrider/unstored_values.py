"""What an apiserver does not store of what is requested for a workload, so that it is not requested again.

An apiserver drops members that it does not know, adds defaults, leaves out empty members. Whatever it makes of one
request it makes of the same request again, so to repeat it changes nothing.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from app.overrider.differences import Difference
from app.store import ObjectKey

MAX_WORKLOADS: Final = 20_000
# A status names three; an overrider has a few dozen patches at most, and each text may be a long pointer.
MAX_POINTERS: Final = 10


class Unstored(NamedTuple):
    """What is not stored of a request."""

    identity: str
    """The assessment's: it changes with the request and with what is stored in its place."""
    lost: tuple[str, ...]
    """Pointers of values that were requested and are not there: unknown members, or ones that a webhook changes."""
    insignificant: tuple[str, ...]
    """Pointers of empty values and defaults."""


def summarize_unstored(identity: str, differences: Sequence[Difference]) -> Unstored:
    """Return what to remember of differences that the apiserver does not take away."""
    lost = [one.pointer for one in differences if not one.insignificant]
    rest = [one.pointer for one in differences if one.insignificant]
    return Unstored(identity, tuple(lost[:MAX_POINTERS]), tuple(rest[:MAX_POINTERS]))


class UnstoredValues:
    """The summarize_unstored of each workload that has one; those that were remembered first are forgotten first."""

    def __init__(self, *, most: int = MAX_WORKLOADS) -> None:
        """Remember ``most`` workloads."""
        self._most: Final = most
        self._known: Final[OrderedDict[ObjectKey, Unstored]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many workloads have one."""
        return len(self._known)

    def get(self, key: ObjectKey) -> Unstored | None:
        """Return a workload's summarize_unstored, None if it has none."""
        return self._known.get(key)

    def explains(self, key: ObjectKey, identity: str) -> bool:
        """Return whether exactly this is known not to be stored."""
        known = self._known.get(key)
        return known is not None and known.identity == identity

    def remember(self, key: ObjectKey, found: Unstored) -> None:
        """Remember what is not stored of a workload."""
        self._known.pop(key, None)
        self._known[key] = found
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, key: ObjectKey) -> None:
        """Forget a workload: it is gone, or has everything."""
        self._known.pop(key, None)

    def forget_lost(self, *, most: int) -> None:
        """Forget the oldest that may be stored another time: a webhook that changed them may be gone.

        Args:
            most: How many to forget; the others' turn comes with the next call.
        """
        lost = (key for key, known in self._known.items() if known.lost)
        for key in list(islice(lost, most)):
            del self._known[key]
