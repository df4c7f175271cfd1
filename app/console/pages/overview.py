"""The section ``/``: sources and their age, the number of objects of each kind, and findings by severity."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.console.lint_watch import LintWatch
from app.console.permissions import select_permitted
from app.console.rendering import Context, find_context, render
from app.console.views.findings import select_kinds
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
        **await _find_findings(request),
    )


@router.get("/findings")
async def show_findings(request: Request) -> HTMLResponse:
    """Show the findings alone; the overview asks for them while they are being computed."""
    return render(request, "overview/findings.html", **await _find_findings(request))


async def _find_findings(request: Request) -> dict[str, Any]:
    """Return the last findings about the kinds that the user may get."""
    context = find_context(request)
    watch: LintWatch = request.app.state.lint_watch
    state = watch.find()
    permitted = await select_permitted(request, context.store.counts())
    return {"lint": state, "findings": select_kinds(state.counts or (), permitted)}
