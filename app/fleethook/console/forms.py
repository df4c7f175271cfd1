"""Forms with typed texts (POST), and the YAML or JSON of their fields.

They are protected against requests that another site makes in the user's browser (CSRF).
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fleethook.cluster.manifests.yaml_reader import ManifestError, Value, read_values
from fleethook.console.access import MAX_BODY_BYTES
from fleethook.model.json import JSON


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
    return [one for one in values if one.value is not None]


def read_document(field: str, text: str, *, most: int) -> Value | None:
    """Return the only document of a field, None if the field is empty; raises FormFieldError as `read_documents`."""
    found = read_documents(field, text, most=most)
    if len(found) > 1:
        raise FormFieldError(field, f"the text has {len(found)} documents, expected one")
    return found[0] if found else None


def read_value(field: str, text: str, *, most: int) -> JSON:
    """Return the value of `read_document`, None if the field is empty."""
    found = read_document(field, text, most=most)
    return None if found is None else found.value


TOKEN_FIELD: Final = "csrf_token"  # noqa: S105 - the name of a field
_COOKIE: Final = "fleethook-visit"
_MAX_FIELDS: Final = 200


class FormTokens:
    """Makes and checks the tokens of forms. A token belongs to the cookie of one browser and to this process."""

    def __init__(self) -> None:
        """Choose a secret for this process."""
        self._secret: Final = secrets.token_bytes(32)

    def make(self, request: Request) -> str:
        """Return the token for the forms of a page; `remember` must send its cookie with the page."""
        visit = _read_visit(request) or getattr(request.state, "visit", None) or secrets.token_urlsafe(24)
        request.state.visit = visit
        return self._sign(visit)

    def remember(self, request: Request, response: Response) -> None:
        """Send the cookie of a browser that has none yet."""
        visit = getattr(request.state, "visit", None)
        if visit is None or _read_visit(request) is not None:
            return
        response.set_cookie(_COOKIE, visit, httponly=True, samesite="strict", path="/")

    def is_valid(self, request: Request, token: str) -> bool:
        """Return whether a token was made for the browser of a request."""
        visit = _read_visit(request)
        return visit is not None and hmac.compare_digest(self._sign(visit).encode(), token.encode())

    def _sign(self, visit: str) -> str:
        return hmac.new(self._secret, visit.encode(), hashlib.sha256).hexdigest()


def _read_visit(request: Request) -> str | None:
    return request.cookies.get(_COOKIE) or None


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, the last value of each.

    Raises:
        HTTPException: The body is too large (413), no form (415, 400), or lacks the token of its page (403).
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
        fields = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    tokens: FormTokens = request.app.state.form_tokens
    if not tokens.is_valid(request, fields.pop(TOKEN_FIELD, "")):
        raise HTTPException(403, "the form lacks the token of its page: reload the page, and send the form again")
    return fields


FormFields = Annotated[Mapping[str, str], Depends(read_form)]
"""The fields of a POST, as a parameter of a page's function."""
