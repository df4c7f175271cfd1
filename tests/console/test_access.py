import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from fleethook.console.access import MAX_BODY_BYTES, RequestGuard
from tests.console.visits import console_of, visit


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


@pytest.mark.parametrize(
    ("length", "status"),
    [(str(MAX_BODY_BYTES), 200), (str(MAX_BODY_BYTES + 1), 413), ("-1", 413), ("1_0", 413), ("9" * 5000, 413)],
)
async def test_a_large_body_is_refused_by_its_announced_length(length: Any, status: Any) -> None:
    assert (await visit(guard(), "/", content_length=length)).status == status


async def test_requests_beyond_the_limit_are_refused_until_one_ends() -> None:
    release, entered = asyncio.Event(), asyncio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await release.wait()
        await _answer(scope, receive, send)

    app = RequestGuard(wait, limit=1)
    first = asyncio.create_task(visit(app, "/"))
    await entered.wait()
    assert (await visit(app, "/")).status == 503
    release.set()
    assert (await first).status == 200
    assert (await visit(app, "/")).status == 200


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
