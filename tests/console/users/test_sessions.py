from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fleethook.console.users.sessions import COOKIE, SESSION_SECONDS, LastingSessions, Sessions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def request_of_session(cookie: str = "") -> Request:
    headers = [(b"cookie", f"{COOKIE}={cookie}".encode())] if cookie else []
    return Request({"type": "http", "headers": headers})


def start(sessions: Sessions, user: str = "u", *, token: str = "t", former: str = "") -> str:
    response = Response()
    sessions.start(request_of_session(former), response, user=user, token=token)
    return response.headers["set-cookie"].partition("=")[2].partition(";")[0]


def find(sessions: Sessions, cookie: str) -> Any:
    return sessions.find_token(request_of_session(cookie))


def test_the_cookie_has_an_id_and_no_token_and_only_the_console_gets_it() -> None:
    response = Response()
    Sessions().start(request_of_session(), response, user="u", token="the-token")
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-")
    assert "the-token" not in cookie
    attributes = {one.strip().lower() for one in cookie.split(";")[1:]}
    assert attributes == {"httponly", "secure", "samesite=strict", "path=/"}


def test_a_session_ends_after_its_time() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    cookie = start(sessions)
    clock.now = SESSION_SECONDS - 1
    assert find(sessions, cookie) == "t"
    clock.now = SESSION_SECONDS
    assert find(sessions, cookie) == ""
    assert len(sessions) == 0


def test_signing_out_ends_the_session_for_copies_of_the_cookie_too() -> None:
    sessions = Sessions()
    cookie = start(sessions)
    sessions.end(request_of_session(cookie), Response())
    assert find(sessions, cookie) == ""


def test_each_sign_in_has_a_new_id_and_ends_the_former_session() -> None:
    sessions = Sessions()
    first = start(sessions)
    second = start(sessions, former=first)
    assert first != second
    assert (find(sessions, first), find(sessions, second)) == ("", "t")


def test_one_user_with_many_sessions_ends_only_its_own() -> None:
    sessions = Sessions(limit=10, user_limit=2)
    other = start(sessions, "other")
    own = [start(sessions, "u") for _ in range(30)]
    assert find(sessions, other) == "t"
    assert [bool(find(sessions, one)) for one in own] == [False] * 28 + [True] * 2


def test_the_number_of_sessions_is_limited() -> None:
    sessions = Sessions(limit=3)
    cookies = [start(sessions, f"u{number}") for number in range(5)]
    assert len(sessions) == 3
    assert [bool(find(sessions, one)) for one in cookies] == [False, False, True, True, True]


def test_unknown_cookies_have_no_token() -> None:
    assert find(Sessions(), "guessed") == ""
    assert find(Sessions(), "") == ""


def local_request(host: str, cookie: str = "") -> Request:
    headers = [(b"host", host.encode()), (b"cookie", cookie.encode())]
    return Request({"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": headers})


def test_consoles_on_two_ports_of_a_host_have_different_cookies() -> None:
    sessions, response = Sessions(secure=False), Response()
    sessions.start(local_request("127.0.0.1:9444"), response, user="", token="t")
    cookie = response.headers["set-cookie"]
    assert {one.strip().lower() for one in cookie.split(";")[1:]} == {"httponly", "samesite=strict", "path=/"}
    sent = cookie.partition(";")[0]
    assert sent.startswith("fleethook-session-9444=")
    assert sessions.find_token(local_request("127.0.0.1:9444", sent)) == "t"
    assert sessions.find_token(local_request("127.0.0.1:9555", sent)) == ""


LASTING = "a-token-of-the-user"


def begin(sessions: LastingSessions) -> str:
    response = Response()
    sessions.start(local_request("127.0.0.1:9444"), response, user="", token=LASTING)
    return response.headers["set-cookie"].partition(";")[0]


def test_a_session_of_a_lasting_token_outlives_its_console() -> None:
    clock = Clock()
    cookie = begin(LastingSessions(LASTING, clock=clock))
    restarted = LastingSessions(LASTING, clock=clock)
    assert restarted.find_token(local_request("127.0.0.1:9444", cookie)) == LASTING
    other = LastingSessions("another-token-of-the-user", clock=clock)
    assert other.find_token(local_request("127.0.0.1:9444", cookie)) == ""
    clock.now = SESSION_SECONDS
    assert restarted.find_token(local_request("127.0.0.1:9444", cookie)) == ""


def test_a_cookie_that_a_lasting_token_has_not_signed_is_no_session() -> None:
    sessions = LastingSessions(LASTING, clock=Clock())
    name, _, key = begin(sessions).partition("=")
    until, nonce, signature = key.split(".")
    for forged in (
        "",
        "x",
        "..",
        f"{int(until) + 1}.{nonce}.{signature}",
        f"{until}.{nonce}.{signature}0",
        f"{until}.",
    ):
        assert sessions.find_token(local_request("127.0.0.1:9444", f"{name}={forged}")) == ""
    moved = f"fleethook-session-9555={key}"
    assert sessions.find_token(local_request("127.0.0.1:9555", moved)) == ""


def test_an_ended_session_of_a_lasting_token_stays_ended() -> None:
    sessions = LastingSessions(LASTING, clock=Clock())
    first, second = begin(sessions), begin(sessions)
    response = Response()
    sessions.end(local_request("127.0.0.1:9444", first), response)
    assert "fleethook-session-9444=" in response.headers["set-cookie"]
    assert sessions.find_token(local_request("127.0.0.1:9444", first)) == ""
    assert sessions.find_token(local_request("127.0.0.1:9444", second)) == LASTING
