"""The page ``/search``: finds objects of all engines, and recorded reviews, by a part of their name."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.context import FindAddress, Hit, engine_pages, list_addresses
from fleethook.console.page_frame import Context, render
from fleethook.console.pages.reviews import MAX_TEXT, ReviewQuery, find_reviews
from fleethook.model.gvk import GroupKind

MAX_HITS: Final = 25
"""The shown objects of each kind."""

router: Final = APIRouter()


class Hits(NamedTuple):
    """The objects of one kind, or names with one title.

    Attributes:
        kind: The kind or title.
        hits: The first of them.
        total: The number of all that match.
    """

    kind: str
    hits: Sequence[Hit]
    total: int


@router.get("/search")
async def show_hits(request: Request, context: Context, q: str = "") -> HTMLResponse:
    """Show the objects whose name contains a text, and the number of reviews of such objects."""
    text = q[:MAX_TEXT].strip()
    groups: list[Hits] = []
    reviews = 0
    if text:
        for kind, find_address in list_addresses().items():
            if (hits := find_hits(context.store, kind, text, find_address)).total:
                groups.append(hits)
        for title, list_names in [one for page in engine_pages() for one in page.names.items()]:
            if (of_title := find_names(title, await list_names(request), text)).total:
                groups.append(of_title)
        if context.reviews is not None:
            indexed = await context.reviews.find()
            reviews = len(await context.worker.run("", find_reviews, indexed.reviews, ReviewQuery(text=text)))
    return render(
        request,
        "search.html",
        text=text,
        found=groups,
        reviews=reviews,
        reviews_url=f"/reviews?{urlencode({'text': text})}",
    )


def find_hits(store: Store, kind: GroupKind, text: str, find_address: FindAddress) -> Hits:
    """Return the objects of one kind whose name contains a text, in any case.

    Args:
        store: The objects.
        kind: The kind.
        text: A part of ``NAMESPACE/NAME``.
        find_address: Returns the page of an object.
    """
    part = text.casefold()
    matching = [key for key in store.keys(kind) if part in key.path.casefold()]
    shown = heapq.nsmallest(MAX_HITS, matching, key=_rank)
    hits = [Hit(key.path, key.cluster, find_address(store, key)) for key in shown]
    return Hits(kind.kind, hits, len(matching))


def find_names(kind: str, names: Iterable[Hit], text: str) -> Hits:
    """Return the names that contain a text, in any case, short ones first."""
    matching = [hit for hit in names if text.casefold() in hit.title.casefold()]
    return Hits(kind, sorted(matching, key=lambda one: (len(one.title), one))[:MAX_HITS], len(matching))


def _rank(key: ObjectKey) -> tuple[int, str, str, str]:
    """Return the place of a hit: short names first, because they contain little besides the text."""
    return len(key.name), key.name, key.namespace, key.cluster
