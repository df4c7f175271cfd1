"""The section ``/``: sources and their age, and the number of objects of each kind."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.console.permissions import select_permitted
from app.console.rendering import Context, render
from app.console.views.overview import count_objects

router: Final = APIRouter()


@router.get("/")
async def show(request: Request, context: Context) -> HTMLResponse:
    """Show the overview."""
    counts = count_objects(context.store)
    permitted = await select_permitted(request, [one.group_kind for one in counts])
    return render(
        request,
        "overview/index.html",
        command=f"fleethook lint {context.command_source}".strip(),
        parts=list(context.parts()),
        counts=[one for one in counts if one.group_kind in permitted],
    )
