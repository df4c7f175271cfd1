import re
from typing import Any

import pytest

from fleethook.cluster.api_errors import UnreachableError
from fleethook.console.users.apiserver_access import ApiserverAuthorizer
from fleethook.console.users.local_access import OneTimeTokenAuthorizer
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import yurt_app_set
from tests.console.reviews_of_access import TOKEN, Apiserver
from tests.console.visits import console_of, send_form, visit


@pytest.fixture
def apiserver() -> Apiserver:
    made = Apiserver()
    made.rights.add(("alice", YURT_APP_SET.group, "yurtappsets", ""))
    return made


@pytest.fixture
def app(apiserver: Apiserver) -> Any:
    return console_of(yurt_app_set(), authorizer=ApiserverAuthorizer(apiserver.post, apiserver.find_resource))


async def open_form(app: Any) -> tuple[str, str]:
    """Return the token of the form, and its cookie."""
    answer = await visit(app, "/login")
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', answer.body.decode())
    assert found is not None
    return found[1], answer.headers["set-cookie"].partition(";")[0]


async def sign_in(app: Any, token: str) -> Any:
    form, cookie = await open_form(app)
    return await send_form(app, "/login", {"csrf_token": form, "token": token}, cookie=cookie), form, cookie


async def test_a_user_signs_in_and_out(app: Any) -> None:
    answer, form, visit_cookie = await sign_in(app, f" {TOKEN}\n")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert TOKEN not in str(answer)
    session = answer.headers["set-cookie"].partition(";")[0]
    page = await visit(app, "/", cookie=session)
    assert page.status == 200
    assert b"alice" in page.body
    assert b"Sign out" in page.body
    cookies = f"{visit_cookie}; {session}"
    assert (await send_form(app, "/logout", {"csrf_token": form}, cookie=cookies)).status == 303
    assert (await visit(app, "/", cookie=session)).status == 401


@pytest.mark.parametrize(("token", "status"), [("invalid", 401), ("", 400), ("  ", 400)])
async def test_a_token_that_is_not_accepted_begins_no_session(app: Any, token: str, status: int) -> None:
    answer, _, _ = await sign_in(app, token)
    assert answer.status == status
    assert "set-cookie" not in answer.headers
    assert b'role="alert"' in answer.body


async def test_without_an_answer_of_the_apiserver_no_session_begins(app: Any, apiserver: Apiserver) -> None:
    apiserver.failure = UnreachableError("no route")
    answer, _, _ = await sign_in(app, TOKEN)
    assert answer.status == 503
    assert "set-cookie" not in answer.headers
    assert b"no route" not in answer.body


async def test_a_form_of_another_site_signs_nobody_in_or_out(app: Any) -> None:
    form, cookie = await open_form(app)
    for path in ["/login", "/logout"]:
        assert (await send_form(app, path, {"token": TOKEN}, cookie=cookie)).status == 403
        assert (await send_form(app, path, {"csrf_token": form, "token": TOKEN})).status == 403
        foreign = {"csrf_token": form, "token": TOKEN}
        assert (await send_form(app, path, foreign, cookie=cookie, origin="https://evil.example")).status == 403


async def test_a_request_without_credentials_gets_a_link_to_the_form_and_no_data(app: Any) -> None:
    answer = await visit(app, "/")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert b'href="/login"' in answer.body
    assert b"Data:" not in answer.body


async def test_a_token_of_the_cluster_in_an_address_begins_no_session(app: Any) -> None:
    answer = await visit(app, "/login", query=f"token={TOKEN}")
    assert answer.status == 200
    assert "session" not in answer.headers.get("set-cookie", "")


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def local_app(told: list[str]) -> Any:
    authorizer = OneTimeTokenAuthorizer()
    authorizer.announce_tokens(told.append)
    return console_of(yurt_app_set(), authorizer=authorizer)


async def test_the_printed_address_opens_one_browser(local_app: Any, told: list[str]) -> None:
    query = f"token={told[0]}"
    answer = await visit(local_app, "/login", query=query)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    session = answer.headers["set-cookie"].partition(";")[0]
    assert told[0] not in str(answer)
    page = await visit(local_app, "/", cookie=session)
    assert page.status == 200
    assert b"Sign out" not in page.body
    again = await visit(local_app, "/login", query=query, cookie=session)
    assert (again.status, again.headers["location"]) == (303, "/")
    other = await visit(local_app, "/login", query=query)
    assert other.status == 401
    assert b"each one opens one browser" in other.body
    assert told[0].encode() not in other.body


async def test_another_account_of_the_host_gets_no_page_without_a_token(local_app: Any) -> None:
    for path in (
        "/",
        "/overriders",
        "/overriders/overrider",
        "/dispatch",
        "/interpreters/playground",
        "/crds",
        "/reviews",
    ):
        answer = await visit(local_app, path)
        assert answer.status == 401
        assert b"--no-token" in answer.body
        assert b"Data:" not in answer.body
    for path in ("/healthz", "/static/style.css", "/login"):
        assert (await visit(local_app, path)).status == 200


async def test_the_token_of_the_output_can_be_typed(local_app: Any, told: list[str]) -> None:
    answer, _, _ = await sign_in(local_app, f" {told[0]} ")
    assert answer.status == 303
    assert (await visit(local_app, "/", cookie=answer.headers["set-cookie"].partition(";")[0])).status == 200
    assert len(told) == 2


async def test_a_console_without_credentials_has_no_form() -> None:
    assert (await visit(console_of(), "/login")).status == 404
