"""Checks of the user's rights before a page reads any object or recorded review."""

from collections.abc import Iterable, Sequence

from starlette.requests import Request

from fleethook.console.rendering import find_context
from fleethook.console.reviews.review_index import Indexed
from fleethook.console.reviews.search import Query, find_reviews
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.console.sections import find_section
from fleethook.console.users.local_access import LOCAL_USER, AccessError, Authorizer, User
from fleethook.model.gvk import GroupKind


async def check_access(request: Request) -> None:
    """Refuse a user who may not get all kinds that the section shows in all namespaces.

    Raises:
        AccessError: The request has no credentials, or the user lacks a right.
    """
    authorizer = find_context(request).authorizer
    user = await authorizer.authenticate(request)
    request.state.user = user
    section = find_section(request.url.path)
    if section is None:
        return
    for kind in section.kinds:
        await require_kind(authorizer, user, kind)
    await require_read_kinds(request, section.further)


async def require_read_kinds(request: Request, kinds: Iterable[GroupKind]) -> None:
    """Refuse a user who may not get those of some kinds that the source has objects of; raises AccessError (403)."""
    context = find_context(request)
    user = getattr(request.state, "user", LOCAL_USER)
    for kind in kinds:
        if context.store.has(kind):
            await require_kind(context.authorizer, user, kind)


async def require_kind(authorizer: Authorizer, user: User, group_kind: GroupKind, *, namespace: str = "") -> None:
    """Refuse a user who may not get a kind in a namespace (``""``: in all of them); raises AccessError (403)."""
    if await authorizer.permits(user, group_kind, namespace):
        return
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    kind = f"{group_kind.kind}.{group_kind.group}" if group_kind.group else group_kind.kind
    raise AccessError(403, f"user {user.name!r} may not get {kind} {where}; this page needs that right")


async def select_permitted(request: Request, kinds: Iterable[GroupKind]) -> frozenset[GroupKind]:
    """Return those of some kinds that the user of a request may get in all namespaces."""
    authorizer = find_context(request).authorizer
    user = getattr(request.state, "user", LOCAL_USER)
    return frozenset([kind for kind in kinds if await authorizer.permits(user, kind, "")])


async def select_permitted_reviews(request: Request, indexed: Indexed) -> Sequence[ReviewSummary]:
    """Return the reviews of kinds that the user may get in all namespaces."""
    context = find_context(request)
    if not context.authorizer.limits_kinds:
        return indexed.reviews
    kinds = await select_permitted(request, {one.group_kind for one in indexed.reviews})
    return await context.worker.run("", find_reviews, indexed.reviews, Query(sort="oldest"), kinds)
