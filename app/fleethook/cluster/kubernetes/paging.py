"""How many objects of a list are requested at a time.

Others wait while a page is split into objects, 1.5 ms for each MB. Objects of one kind have similar sizes, so each page
tells how many objects the next one may have.
"""

from typing import Final

_PAGE_BYTES: Final = 512 << 10
_FIRST: Final = 20
# client-go requests as many at a time, independent of their size (client-go, tools/pager/pager.go).
MAX_OBJECTS: Final = 500


class PageSize:
    """The number of objects of one kind that have about half a megabyte."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        """Begin with a small page: an object may have a megabyte."""
        self._objects = _FIRST

    @property
    def limit(self) -> str:
        """The number as a query has it."""
        return str(self._objects)

    def note(self, *, objects: int, size: int) -> None:
        """Take note of a page: how many objects it had, and how many bytes."""
        if objects:
            self._objects = max(1, min(MAX_OBJECTS, _PAGE_BYTES * objects // size))
