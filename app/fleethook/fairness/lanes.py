"""A queue in lanes that take turns, so that a lane with 10,000 waiting items does not delay another lane."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Lanes(Generic[Item]):
    """Items in the order of their arrival within a lane.

    A lane is one of those among which turns are shared, for example a logical cluster. All operations take constant
    time, except that `take` passes lanes that are not eligible.
    """

    __slots__ = ("_count", "_lanes")

    def __init__(self) -> None:
        """Begin empty."""
        self._lanes: Final[OrderedDict[Hashable, dict[Item, None]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self._count

    def __iter__(self) -> Iterator[Hashable]:
        """Return the lanes with items, in the order of their turns."""
        return iter(self._lanes)

    def __contains__(self, lane: Hashable) -> bool:
        """Return whether a lane has items."""
        return lane in self._lanes

    def has(self, lane: Hashable, item: Item) -> bool:
        """Return whether an item waits in a lane."""
        return item in self._lanes.get(lane, ())

    def add(self, lane: Hashable, item: Item) -> None:
        """Add an item that does not wait yet behind the others of its lane."""
        items = self._lanes.get(lane)
        if items is None:
            items = self._lanes[lane] = {}
        items[item] = None
        self._count += 1

    def discard(self, lane: Hashable, item: Item) -> bool:
        """Remove an item, and return whether it waited."""
        if not self.has(lane, item):
            return False
        self._remove(lane, self._lanes[lane], item)
        return True

    def take(self, eligible: Callable[[Hashable], bool] = lambda _: True) -> Item | None:
        """Remove and return the first item of the next eligible lane; None if no eligible lane has one."""
        for lane in self._lanes:
            if eligible(lane):
                return self.take_from(lane)
        return None

    def take_from(self, lane: Hashable) -> Item:
        """Remove and return the first item of a lane that has some; the lane is the last one then."""
        items = self._lanes[lane]
        item = next(iter(items))
        self._remove(lane, items, item)
        if items:
            self._lanes.move_to_end(lane)
        return item

    def _remove(self, lane: Hashable, items: dict[Item, None], item: Item) -> None:
        del items[item]
        self._count -= 1
        if not items:
            del self._lanes[lane]
