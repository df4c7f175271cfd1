"""Pages of long lists."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Paging(NamedTuple):
    """One page of a sequence.

    Attributes:
        page: The page, counted from 1; not more than `pages`.
        pages: The number of pages, at least 1.
        total: The number of elements on all pages.
        start: The position of the first element of the page.
    """

    page: int
    pages: int
    total: int
    start: int


def paginate(total: int, page: int, size: int) -> Paging:
    """Return the page with a number, or the nearest existing page."""
    pages = max(1, -(-total // size))
    current = min(max(1, page), pages)
    return Paging(current, pages, total, (current - 1) * size)


def take_page(elements: Sequence[T], page: int, size: int) -> tuple[Sequence[T], Paging]:
    """Return the elements of a page, or of the nearest existing one, with that page."""
    paging = paginate(len(elements), page, size)
    return elements[paging.start : paging.start + size], paging
