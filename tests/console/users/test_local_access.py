from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from fleethook.console.users.local_access import LOCAL_USER, AccessError, OneTimeTokenAuthorizer, OpenAuthorizer
from fleethook.model.openyurt import NODE_POOL


async def test_a_console_without_a_token_permits_everything() -> None:
    authorizer = OpenAuthorizer()
    user = await authorizer.authenticate(None)
    assert user == LOCAL_USER
    assert await authorizer.permits(user, NODE_POOL, "")
    assert not authorizer.needs_credentials
    assert not authorizer.limits_kinds


def request_with(cookie: str = "") -> Request:
    headers = [(b"host", b"127.0.0.1:9444"), (b"cookie", cookie.encode())]
    return Request({"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": headers})


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def authorizer(told: list[str]) -> OneTimeTokenAuthorizer:
    made = OneTimeTokenAuthorizer()
    made.announce_tokens(told.append)
    return made


async def test_a_token_is_used_once_and_the_next_one_is_announced(
    authorizer: OneTimeTokenAuthorizer, told: list[str]
) -> None:
    (first,) = told
    assert await authorizer.review_token(first, client="") == LOCAL_USER
    with pytest.raises(AccessError, match="each one opens one browser") as refused:
        await authorizer.review_token(first, client="")
    assert refused.value.status == 401
    assert first not in str(refused.value)
    assert len(set(told)) == 2
    assert await authorizer.review_token(told[1], client="") == LOCAL_USER


@pytest.mark.parametrize("token", ["", "guessed", "é", "\x00"])
async def test_another_token_is_refused_and_ends_none(
    authorizer: OneTimeTokenAuthorizer, told: list[str], token: str
) -> None:
    with pytest.raises(AccessError):
        await authorizer.review_token(token, client="")
    assert await authorizer.review_token(told[0], client="") == LOCAL_USER


async def test_only_a_browser_with_a_session_is_the_local_user(authorizer: OneTimeTokenAuthorizer) -> None:
    response = Response()
    authorizer.sessions.start(request_with(), response, user="", token="t")
    cookie = response.headers["set-cookie"].partition(";")[0]
    assert await authorizer.authenticate(request_with(cookie)) == LOCAL_USER
    assert await authorizer.permits(LOCAL_USER, NODE_POOL, "")
    for other in ("", cookie[:-1], f"{cookie}x", "fleethook-session-9444="):
        with pytest.raises(AccessError, match="--no-token") as refused:
            await authorizer.authenticate(request_with(other))
        assert refused.value.status == 401


async def test_a_closed_output_does_not_refuse_a_browser(authorizer: OneTimeTokenAuthorizer, told: list[str]) -> None:
    calls: list[Any] = []

    def announce(token: str) -> None:
        calls.append(token)
        if len(calls) > 1:
            raise BrokenPipeError

    authorizer.announce_tokens(announce)
    assert await authorizer.review_token(told[0], client="") == LOCAL_USER


async def test_a_lasting_token_opens_all_browsers_and_is_not_announced() -> None:
    told: list[str] = []
    lasting = OneTimeTokenAuthorizer("a-token-of-the-user")
    lasting.announce_tokens(told.append)
    for _ in range(2):
        assert await lasting.review_token("a-token-of-the-user", client="") == LOCAL_USER
    assert told == [""]
    with pytest.raises(AccessError, match="not the token of FLEETHOOK_CONSOLE_TOKEN"):
        await lasting.review_token("", client="")


async def test_the_page_of_a_browser_without_a_session_says_how_to_sign_in_again(
    authorizer: OneTimeTokenAuthorizer,
) -> None:
    with pytest.raises(AccessError, match=r"restarted since: open the last address .*login\?token=TOKEN"):
        await authorizer.authenticate(request_with())
    with pytest.raises(AccessError, match="sign in with the token of FLEETHOOK_CONSOLE_TOKEN"):
        await OneTimeTokenAuthorizer("a-token-of-the-user").authenticate(request_with())
