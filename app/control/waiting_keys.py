"""Keys that wait to be worked on, in lanes that take turns."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WaitingKeys(Generic[Key]):
    """Keys in the order of their arrival within a lane; lanes come in rotation."""

    def __init__(self, lane: Callable[[Key], Hashable]) -> None:
        """Begin empty; ``lane`` returns the lane of a key."""
        self._lane: Final = lane
        self._lanes: Final[OrderedDict[Hashable, OrderedDict[Key, None]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._count

    def __contains__(self, key: Key) -> bool:
        """Tell whether a key waits."""
        return key in self._lanes.get(self._lane(key), ())

    def add(self, key: Key) -> None:
        """Add a key that does not wait yet behind the others of its lane."""
        self._lanes.setdefault(self._lane(key), OrderedDict())[key] = None
        self._count += 1

    def discard(self, key: Key) -> None:
        """Remove a key if it waits."""
        if key in self:
            self._remove(self._lane(key), key)

    def take(self, eligible: Callable[[Hashable], bool]) -> Key | None:
        """Remove and return the first key of the next eligible lane; None if no eligible lane has one."""
        for lane in filter(eligible, self._lanes):
            key = next(iter(self._lanes[lane]))
            self._remove(lane, key)
            if lane in self._lanes:
                self._lanes.move_to_end(lane)
            return key
        return None

    def _remove(self, lane: Hashable, key: Key) -> None:
        del self._lanes[lane][key]
        self._count -= 1
        if not self._lanes[lane]:
            del self._lanes[lane]
