"""The recorded reviews that the user of a request may see."""

from collections.abc import Sequence

from starlette.requests import Request

from fleethook.console.rendering import find_context
from fleethook.console.reviews.review_index import Indexed
from fleethook.console.reviews.search import Query, find_reviews
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.console.users.permissions import select_permitted


async def select_permitted_reviews(request: Request, indexed: Indexed) -> Sequence[ReviewSummary]:
    """Return the reviews of kinds that the user may get in all namespaces."""
    context = find_context(request)
    if not context.authorizer.needs_credentials:
        return indexed.reviews
    kinds = await select_permitted(request, {one.group_kind for one in indexed.reviews})
    return await context.worker.run("", find_reviews, indexed.reviews, Query(sort="oldest"), kinds)
