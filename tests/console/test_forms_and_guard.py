from typing import Any

import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from fleethook.console.forms_and_guard import (
    MAX_BODY_BYTES,
    FormError,
    FormFieldError,
    FormFields,
    RequestGuard,
    read_document,
    read_documents,
    read_value,
)
from tests.asgi_client import call
from tests.console.visits import console_of, send_form, visit


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
    """Return an application that echoes the fields of a form."""
    found = FastAPI()

    @found.post("/")
    async def take(fields: FormFields) -> dict[str, str]:
        return dict(fields)

    return found


async def test_a_form_is_read() -> None:
    answer = await send_form(app(), "/", {"text": "a\nü", "empty": ""})
    assert answer.json() == {"text": "a\nü", "empty": ""}


async def test_a_body_of_unknown_length_is_read_up_to_the_limit() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "host": "localhost"}
    half = b"a" * (MAX_BODY_BYTES // 2)
    assert (await call(app(), "/", half, half, b"a", headers=headers)).status == 413


async def test_a_form_that_cannot_be_read_is_refused() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "host": "localhost"}
    assert (await call(app(), "/", b"a=\xff", headers=headers)).status == 400
    assert (await call(app(), "/", b"&".join([b"a=1"] * 201), headers=headers)).status == 400


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse("page")(scope, receive, send)


def guard(**options: Any) -> Any:
    return RequestGuard(_answer, **options)


@pytest.mark.parametrize("host", ["localhost", "localhost:9444", "127.0.0.1:9444", "[::1]:9444", "LOCALHOST"])
async def test_names_of_the_own_machine_are_answered(host: Any) -> None:
    assert (await visit(guard(), "/", host=host)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:9444", "", "[::1", "127.0.0.1.nip.io", "evil@x"]
)
async def test_a_foreign_name_that_resolves_to_this_machine_is_refused(host: Any) -> None:
    assert (await visit(guard(), "/", host=host)).status == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_only_methods_of_forms_and_links_are_answered(method: Any) -> None:
    assert (await visit(guard(), "/", method=method)).status == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost"}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "https://localhost"}, 403),
        ({"origin": "http://localhost:1"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none", "origin": "http://localhost"}, 403),
    ],
)
async def test_a_form_of_another_origin_is_refused(headers: Any, status: Any) -> None:
    assert (await visit(guard(), "/", method="POST", **headers)).status == status


async def test_every_answer_has_the_protecting_headers() -> None:
    app = console_of()
    for path, host in [
        ("/", "localhost"),
        ("/nothing", "localhost"),
        ("/static/main.js", "localhost"),
        ("/", "evil.example"),
    ]:
        headers = (await visit(app, path, host=host)).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"


TOKEN = "a-printed-token"


async def test_the_printed_address_begins_the_session_of_a_browser() -> None:
    app = guard(token=TOKEN)
    assert (await visit(app, "/")).status == 401
    assert (await visit(app, "/static/main.js")).status == 200
    assert (await visit(app, "/login", query="token=another")).status == 401
    answer = await visit(app, "/login", query=f"token={TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert (await visit(app, "/", cookie=cookie.partition(";")[0])).status == 200
    assert (await visit(app, "/", cookie=f"{cookie.partition('=')[0]}=another")).status == 401


async def test_the_session_of_a_console_is_none_of_another_port() -> None:
    answer = await visit(guard(token=TOKEN), "/login", query=f"token={TOKEN}", host="localhost:1")
    assert answer.headers["set-cookie"].startswith("fleethook-session-1=")
    assert (
        (await visit(guard(token="other"), "/login", query="token=other", host="localhost:2"))
        .headers["set-cookie"]
        .startswith("fleethook-session-2=")
    )
