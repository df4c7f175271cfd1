"""The list of a section's objects, for sections without a page of their own kind yet."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.console.rendering import Context, render
from app.console.sections import Section
from app.console.views.objects import list_objects


def make_router(section: Section) -> APIRouter:
    """Return the router of a page that lists the objects of a section."""
    router = APIRouter(prefix=section.path)

    @router.get("")
    async def show(request: Request, context: Context, q: str = "", page: int = 1) -> HTMLResponse:
        listed = list_objects(context.store, section.kinds, text=q, page=page)
        return render(request, "objects.html", listed=listed, section=section, q=q)

    return router
