"""The checks of every request, and forms with typed texts (POST) with the YAML or JSON of their fields.

A request is checked for its Host, the token of the console, and the origin of a POST, against requests that another
site makes in the user's browser (CSRF).
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError, Value, read_values
from fleethook.model.json import JSON

MAX_BODY_BYTES: Final = 4 << 20
"""The largest body of a form. An object in etcd has at most 1.5 MiB."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With no-referrer, a browser sends `Origin: null` with the forms of the console itself (Fetch standard, "append a
    # request Origin header"), which `_comes_from_own_page` refuses.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SESSION: Final = (
    "401: this browser has no session, or the console has been restarted since: open the address that the console has "
    "printed (fleethook console: http://…/login?token=TOKEN); or start the console with --no-token to let every "
    "account of this host read its pages\n"
)


def create_token() -> str:
    """Return the token of a console until its end."""
    return secrets.token_urlsafe(32)


def build_address(host: str, port: int, token: str) -> str:
    """Return the address that a browser needs: with the token, unless it is ``""``."""
    return f"http://{host}:{port}/{f'login?token={token}' if token else ''}"


class RequestGuard:
    """Refuses requests that no browser of a user sends to this console, and adds the headers that protect a page."""

    def __init__(self, app: ASGIApp, *, token: str = "") -> None:
        """Prepare.

        Args:
            app: The pages.
            token: The token that the console has printed: every account of the host can connect to a loopback address.
                ``""`` lets all of them read the pages.
        """
        self._app: Final = app
        self._token: Final = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _add_headers(send)
        if (answer := self._find_answer(scope)) is not None:
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _find_answer(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is refused, or begins a session; None if the request may pass."""
        if (refusal := self._find_refusal(scope)) is not None:
            status, text = refusal
            return PlainTextResponse(text + "\n", status_code=status)
        if not self._token or scope["path"].startswith("/static/"):
            return None
        request = Request(scope)
        # Browsers share cookies between the ports of a host, so each console has a cookie of its own.
        cookie = f"fleethook-session-{request.url.port or 80}"
        if scope["path"] == "/login" and self._is_token(request.query_params.get("token", "")):
            response = RedirectResponse("/", 303)
            response.set_cookie(cookie, self._token, httponly=True, samesite="strict", path="/")
            return response
        if self._is_token(request.cookies.get(cookie, "")):
            return None
        return PlainTextResponse(_NO_SESSION, status_code=401)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and message of a refusal, None if the request may pass."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not _is_loopback_name(headers.get("host", "")):
            return (
                421,
                "421: this console does not answer to this host name; use its own address",
            )
        if scope["method"] not in _METHODS:
            return 405, "405: the console is read-only; use GET or POST"
        if scope["method"] == "POST" and not _comes_from_own_page(headers):
            return 403, "403: the form was sent by a page of another origin"
        return None


def _is_loopback_name(host: str) -> bool:
    """Return whether a request names a loopback address: a foreign name may resolve to it, too (DNS rebinding)."""
    try:
        return urlsplit(f"//{host}").hostname in _LOOPBACK_NAMES
    except ValueError:
        return False


def _comes_from_own_page(headers: dict[str, str]) -> bool:
    """Return whether a browser sent a form from a page of the same origin; programs send neither header."""
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or origin == f"http://{headers.get('host', '')}"


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            headers += _HEADERS
            if not any(name == _NO_STORE[0] for name, _ in headers):
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


@dataclass(frozen=True)
class FormError:
    """A field that cannot be used, and the line at which to show the reason."""

    field: str
    text: str
    line: int = 0
    """The line in the field, 0 if the error is about no line."""


class FormFieldError(ValueError):
    """A field of a form cannot be used.

    Attributes:
        error: The field, and the reason.
    """

    def __init__(self, field: str, text: str, line: int = 0) -> None:
        """Name the field, the reason, and the line in the field (0 for none)."""
        super().__init__(text)
        self.error: Final = FormError(field, text, line)


def limit_text(field: str, text: str, *, most: int) -> str:
    """Return a text that has at most so many characters; raises FormFieldError for a longer one."""
    if len(text) > most:
        raise FormFieldError(field, f"the text has more than {most >> 10} KiB: shorten it")
    return text


def read_documents(field: str, text: str, *, most: int) -> list[Value]:
    """Return the documents of a field that are not empty.

    Args:
        field: The field's name.
        text: YAML or JSON.
        most: Characters that the text may have.

    Raises:
        FormFieldError: The text is too long, or is neither YAML nor JSON.
    """
    try:
        values = read_values(limit_text(field, text, most=most), source=field)
    except ManifestError as error:
        raise FormFieldError(field, error.reason, error.line) from None
    return [value for value in values if value.value is not None]


def read_document(field: str, text: str, *, most: int) -> Value | None:
    """Return the only document of a field, None if the field is empty; raises FormFieldError as `read_documents`."""
    documents = read_documents(field, text, most=most)
    if len(documents) > 1:
        raise FormFieldError(field, f"the text has {len(documents)} documents, expected one")
    return documents[0] if documents else None


def read_value(field: str, text: str, *, most: int) -> JSON:
    """Return the value of `read_document`, None if the field is empty."""
    document = read_document(field, text, most=most)
    return None if document is None else document.value


_MAX_FIELDS: Final = 200


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, the last value of each.

    Raises:
        HTTPException: The body is too large (413), or no form (415, 400).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "send the form as application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"the form is larger than {MAX_BODY_BYTES} bytes")
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None


FormFields = Annotated[Mapping[str, str], Depends(read_form)]
"""The fields of a POST, as a parameter of a page's function."""
