"""``/login`` and ``/logout``: the session of a browser whose user signs in with a bearer token."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fleethook.console.forms import FormFields
from fleethook.console.rendering import find_context, render
from fleethook.console.users.access import AccessError
from fleethook.console.users.remote_access import ApiserverAuthorizer

router: Final = APIRouter()

_TOKEN_FIELD: Final = "token"  # noqa: S105 - the name of a field


@router.get("/login")
async def show(request: Request) -> HTMLResponse:
    """Show the form."""
    return await render(request, "login.html", problem="")


@router.post("/login")
async def sign_in(request: Request, fields: FormFields) -> Response:
    """Have the apiserver review the token, and begin a session."""
    authorizer = _find_authorizer(request)
    token = fields.get(_TOKEN_FIELD, "").strip()
    if not token:
        return await render(request, "login.html", status=400, problem="enter a token")
    try:
        user = await authorizer.review_token(token, client=request.client.host if request.client else "")
    except AccessError as error:
        return await render(request, "login.html", status=error.status, problem=str(error))
    response = RedirectResponse("/", 303)
    authorizer.sessions.start(request, response, user=user.name, token=token)
    return response


@router.post("/logout")
async def sign_out(request: Request, _fields: FormFields) -> Response:
    """End the session."""
    response = RedirectResponse("/login", 303)
    _find_authorizer(request).sessions.end(request, response)
    return response


def _find_authorizer(request: Request) -> ApiserverAuthorizer:
    authorizer = find_context(request).authorizer
    assert isinstance(authorizer, ApiserverAuthorizer), "only a console with remote access has these pages"
    return authorizer
