import re
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from fleethook.console.access import MAX_BODY_BYTES
from fleethook.console.forms import (
    FormError,
    FormFieldError,
    FormFields,
    FormTokens,
    read_document,
    read_documents,
    read_value,
)
from fleethook.console.rendering import render
from tests.asgi_client import call
from tests.console.visits import make_context, send_form, visit


def test_a_document_has_its_line() -> None:
    found = read_document("a", "\n\na: 1", most=100)
    assert found is not None
    assert (found.value, found.line) == ({"a": 1}, 3)
    assert read_value("a", "a: 1", most=100) == {"a": 1}
    assert read_value("a", "# nothing", most=100) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\n---\nb: 2", FormError("a", "the text has 2 documents, expected one")),
        ("x" * 4097, FormError("a", "the text has more than 4 KiB: shorten it")),
    ],
)
def test_a_text_that_cannot_be_used_is_an_error_of_its_field(text: str, error: FormError) -> None:
    with pytest.raises(FormFieldError) as caught:
        read_value("a", text, most=4096)
    assert caught.value.error == error


def test_an_error_of_the_syntax_has_its_line() -> None:
    with pytest.raises(FormFieldError) as caught:
        read_documents("a", "a: 1\nb: [", most=100)
    assert (caught.value.error.field, caught.value.error.line) == ("a", 3)


def app() -> FastAPI:
    """Return an application with a page that has a form, and echoes its fields."""
    found = FastAPI()
    found.state.context, found.state.form_tokens = make_context(), FormTokens()

    @found.post("/")
    async def take(fields: FormFields) -> dict[str, str]:
        return dict(fields)

    @found.get("/", response_model=None)
    async def show(request: Request) -> Any:
        return await render(request, "error.html", title="form", text=request.app.state.form_tokens.make(request))

    return found


async def open_page(application: FastAPI) -> tuple[str, str]:
    """Return the token and the cookie of a new browser."""
    answer = await visit(application, "/")
    token = re.search(r"<bdi>([0-9a-f]{64})</bdi>", answer.body.decode())
    assert token is not None
    return token[1], answer.headers["set-cookie"].partition(";")[0]


async def test_a_form_with_the_token_of_its_page_is_read() -> None:
    application = app()
    token, cookie = await open_page(application)
    answer = await send_form(application, "/", {"csrf_token": token, "text": "a\nü", "empty": ""}, cookie=cookie)
    assert answer.json() == {"text": "a\nü", "empty": ""}


async def test_the_cookie_is_strict_and_unreadable_for_scripts() -> None:
    cookie = (await visit(app(), "/")).headers["set-cookie"]
    assert cookie.startswith("fleethook-visit=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}


async def test_a_form_without_token_or_with_that_of_another_browser_is_refused() -> None:
    application = app()
    token, cookie = await open_page(application)
    _, other = await open_page(application)
    for fields, sent in [
        ({}, cookie),
        ({"csrf_token": "x" * 64}, cookie),
        ({"csrf_token": token}, other),
        ({"csrf_token": token}, ""),
    ]:
        assert (await send_form(application, "/", fields, cookie=sent)).status == 403
    assert (await send_form(application, "/", {"csrf_token": "ü"}, cookie=cookie)).status == 403


async def test_the_token_of_another_process_is_refused() -> None:
    token, cookie = await open_page(app())
    assert (await send_form(app(), "/", {"csrf_token": token}, cookie=cookie)).status == 403


async def test_a_body_of_unknown_length_is_read_up_to_the_limit() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "host": "localhost"}
    half = b"a" * (MAX_BODY_BYTES // 2)
    assert (await call(app(), "/", half, half, b"a", headers=headers)).status == 413


async def test_a_form_that_cannot_be_read_is_refused() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "host": "localhost"}
    assert (await call(app(), "/", b"a=\xff", headers=headers)).status == 400
    assert (await call(app(), "/", b"&".join([b"a=1"] * 201), headers=headers)).status == 400
