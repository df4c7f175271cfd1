"""``/login`` and ``/logout``: the session of a browser whose user has a token."""

from typing import Final, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fleethook.console.forms import FormFields
from fleethook.console.rendering import find_context, render
from fleethook.console.users.local_access import AccessError, SignInAuthorizer

router: Final = APIRouter()

_TOKEN_FIELD: Final = "token"  # noqa: S105 - the name of a field


@router.get("/login")
async def show(request: Request, token: str = "") -> Response:
    """Show the form, or begin a session by the token in the address."""
    authorizer = _find_authorizer(request)
    if not token or not authorizer.opens_by_address:
        return await _show_form(request)
    if authorizer.sessions.find_token(request):
        # A reload of the address, in the browser whose session it has begun.
        return RedirectResponse("/", 303)
    return await _begin_session(request, token)


@router.post("/login")
async def sign_in(request: Request, fields: FormFields) -> Response:
    """Begin a session by the token of the form."""
    token = fields.get(_TOKEN_FIELD, "").strip()
    if not token:
        return await _show_form(request, status=400, problem="enter a token")
    return await _begin_session(request, token)


async def _begin_session(request: Request, token: str) -> Response:
    authorizer = _find_authorizer(request)
    try:
        user = await authorizer.review_token(token, client=request.client.host if request.client else "")
    except AccessError as error:
        return await _show_form(request, status=error.status, problem=str(error))
    response = RedirectResponse("/", 303)
    authorizer.sessions.start(request, response, user=user.name, token=token)
    return response


async def _show_form(request: Request, *, status: int = 200, problem: str = "") -> HTMLResponse:
    local = _find_authorizer(request).opens_by_address
    return await render(request, "login.html", status=status, problem=problem, is_local=local)


@router.post("/logout")
async def sign_out(request: Request, _fields: FormFields) -> Response:
    """End the session."""
    response = RedirectResponse("/login", 303)
    _find_authorizer(request).sessions.end(request, response)
    return response


def _find_authorizer(request: Request) -> SignInAuthorizer:
    """Return the authorizer; `create_console` adds these pages for one with sessions only."""
    return cast("SignInAuthorizer", find_context(request).authorizer)
