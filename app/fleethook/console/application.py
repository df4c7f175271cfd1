"""The ASGI application of the console."""

from pathlib import Path
from typing import Final

from fastapi import Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from fleethook.console.context import ConsoleContext
from fleethook.console.forms import FormTokens
from fleethook.console.lint_watch import LintWatch
from fleethook.console.pages import health, login, overview, reviews
from fleethook.console.rendering import load_templates, render
from fleethook.console.users.access import AccessError
from fleethook.console.users.permissions import check_access
from fleethook.console.users.remote_access import ApiserverAuthorizer
from fleethook.console.users.security import RequestGuard
from fleethook.engines.crds.pages import crds
from fleethook.engines.dispatch.pages import dispatch
from fleethook.engines.interpret.pages import interpreters
from fleethook.engines.overrider.pages import overriders

_STATIC: Final = Path(__file__).parent / "static"
_PAGES: Final = (overview, overriders, dispatch, interpreters, crds, reviews)


def create_console(context: ConsoleContext, *, hosts: tuple[str, ...] | None) -> ASGIApp:
    """Return the application.

    Args:
        context: The objects and options of the pages.
        hosts: The names by which the console may be called, None for any, as for `RequestGuard`.
    """
    load_templates()
    app = FastAPI(title="fleethook console", openapi_url=None)
    app.state.context = context
    app.state.kept_values = {}
    app.state.form_tokens = FormTokens()
    app.state.lint_watch = LintWatch(context)
    for page in _PAGES:
        app.include_router(page.router, dependencies=[Depends(check_access)])
    app.include_router(health.router)
    if isinstance(context.authorizer, ApiserverAuthorizer):
        app.include_router(login.router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    app.add_exception_handler(AccessError, _refuse_access)
    app.add_exception_handler(HTTPException, _show_http_error)
    return RequestGuard(app, hosts=hosts, open_paths=health.PATHS)


async def _refuse_access(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, AccessError)
    response = await render(request, "error.html", status=error.status, text=str(error), title=str(error.status))
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _show_http_error(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, HTTPException)
    text = str(error.detail)
    return await render(request, "error.html", status=error.status_code, text=text, title=str(error.status_code))
