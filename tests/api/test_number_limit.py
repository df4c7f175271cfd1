"""Long numbers in bodies."""

import json

import pytest

from app.api.body_limit import RequestError
from app.api.endpoint import MAX_ON_LOOP
from app.api.number_limit import MAX_DIGITS, check_numbers
from app.asgi import create_app
from app.settings import Settings
from tests.asgi_client import call

LONG = "1" * (MAX_DIGITS + 1)


@pytest.mark.parametrize(
    "body",
    [
        f'{{"a":{"1" * MAX_DIGITS},"b":"\\\\"}}', f'{{"a":"{LONG}"}}', f'{{"a":"\\"{LONG}","b":[1,"x{LONG}{LONG}"]}}',
        f'["\\\\\\"{LONG}"]', f'"{LONG}', "[]", "",
    ],
)  # fmt: skip
def test_texts_may_have_many_digits(body: str) -> None:
    check_numbers(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        f"[{LONG}]", f'{{"a":-{LONG}}}', f"[0.{LONG}e5]", LONG, f'["{LONG}",{LONG}]', f'["\\\\",{LONG}]',
        f'["\\"",{LONG},"a"]', f'["a","{LONG}","\\\\\\\\", {LONG}]',
    ],
)  # fmt: skip
def test_a_long_number_is_refused(body: str) -> None:
    with pytest.raises(RequestError, match=f"more than {MAX_DIGITS} digits") as refused:
        check_numbers(body.encode())
    assert refused.value.code == 400


@pytest.mark.parametrize("path", ["/mutate-apps-v1-deployment", "/interpret", "/clusters/ws1/mutate"])
async def test_a_large_review_with_a_long_number_is_refused_unread(path: str) -> None:
    body = json.dumps({"a": "a" * MAX_ON_LOOP}).encode()[:-1] + b',"b":' + LONG.encode() + b"}"
    answer = await call(create_app(Settings(), log=None), path, body)
    assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")
    assert "digits" in answer.json()["message"]
