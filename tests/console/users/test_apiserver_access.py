import logging
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.console.users.apiserver_access import (
    CACHE_SECONDS,
    EXTENSION,
    REFUSED_SECONDS,
    ApiserverAuthorizer,
    find_certificate_user,
    read_certificate_user,
)
from fleethook.console.users.local_access import AccessError, User
from fleethook.console.users.sessions import COOKIE
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET
from fleethook.server.callers import TOKEN_REVIEWS
from tests.console.reviews_of_access import TOKEN, Apiserver


def certificate(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((pair,) for pair in pairs)}


def test_common_name_and_organizations_are_user_and_groups() -> None:
    user = read_certificate_user(certificate(("organizationName", "a"), ("organizationName", "b"), ("commonName", "u")))
    assert user is not None
    assert (user.name, user.groups) == ("u", ("a", "b", "system:authenticated"))


def test_the_last_common_name_counts_as_in_kube_apiserver() -> None:
    user = read_certificate_user(certificate(("commonName", "first"), ("commonName", "last")))
    assert user is not None
    assert user.name == "last"


@pytest.mark.parametrize("given", [None, {}, certificate(("organizationName", "system:masters"))])
def test_a_certificate_without_a_common_name_names_no_user(given: Any) -> None:
    assert read_certificate_user(given) is None


def test_a_request_without_a_certificate_has_no_user() -> None:
    user = read_certificate_user(certificate(("commonName", "u")))
    assert find_certificate_user({"extensions": {EXTENSION: {"user": user}}}) is user
    assert find_certificate_user({"extensions": {}}) is None
    assert find_certificate_user({}) is None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


ALICE = User("alice", "7", ("devs",), (("k", ("v",)),))
PROXY = User("proxy", groups=("system:masters",))


@pytest.fixture
def apiserver() -> Apiserver:
    return Apiserver()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authorizer(apiserver: Apiserver, clock: Clock) -> ApiserverAuthorizer:
    return ApiserverAuthorizer(apiserver.post, apiserver.find_resource, clock=clock)


def request_with(*headers: tuple[str, str], certificate: User | None = None) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    extensions: dict[str, Any] = {EXTENSION: {"user": certificate}} if certificate else {}
    return Request({"type": "http", "headers": raw, "client": ("192.0.2.1", 1), "extensions": extensions})


def bearer(token: str = TOKEN, **rest: Any) -> Request:
    return request_with(("authorization", f"Bearer {token}"), **rest)


async def test_the_apiserver_names_the_user_of_a_token(authorizer: ApiserverAuthorizer, apiserver: Apiserver) -> None:
    assert await authorizer.authenticate(bearer()) == ALICE
    assert apiserver.asked == [(TOKEN_REVIEWS, {"token": TOKEN})]
    assert await authorizer.authenticate(bearer()) == ALICE
    assert len(apiserver.asked) == 1


async def test_a_removed_token_is_refused_after_the_life_of_the_cache(
    authorizer: ApiserverAuthorizer, apiserver: Apiserver, clock: Clock
) -> None:
    await authorizer.authenticate(bearer())
    apiserver.users.clear()
    clock.now = CACHE_SECONDS
    with pytest.raises(AccessError, match="does not accept the bearer token") as refused:
        await authorizer.authenticate(bearer())
    assert refused.value.status == 401


async def test_a_client_certificate_names_the_user(authorizer: ApiserverAuthorizer) -> None:
    assert await authorizer.authenticate(request_with(certificate=PROXY)) == PROXY


async def test_a_request_with_a_bad_token_does_not_get_the_rights_of_its_certificate(
    authorizer: ApiserverAuthorizer,
) -> None:
    assert await authorizer.authenticate(bearer(certificate=PROXY)) == ALICE
    for headers in [
        [("authorization", "Bearer unknown")],
        [("authorization", "Basic YTpi")],
        [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")],
    ]:
        with pytest.raises(AccessError) as refused:
            await authorizer.authenticate(request_with(*headers, certificate=PROXY))
        assert refused.value.status == 401


async def test_a_session_has_the_user_of_its_token(authorizer: ApiserverAuthorizer, apiserver: Apiserver) -> None:
    response = Response()
    authorizer.sessions.start(request_with(), response, user="alice", token=TOKEN)
    cookie = response.headers["set-cookie"].partition(";")[0]
    assert await authorizer.authenticate(request_with(("cookie", cookie))) == ALICE
    with pytest.raises(AccessError, match="needs credentials"):
        await authorizer.authenticate(request_with(("cookie", f"{COOKIE}=guessed")))
    assert len(apiserver.asked) == 1


async def test_rights_are_those_of_a_kind_in_a_namespace(authorizer: ApiserverAuthorizer, apiserver: Apiserver) -> None:
    apiserver.rights.add(("alice", "apps.openyurt.io", "yurtappsets", "a"))
    assert await authorizer.permits(ALICE, YURT_APP_SET, "a")
    assert not await authorizer.permits(ALICE, YURT_APP_SET, "b")
    assert not await authorizer.permits(ALICE, YURT_APP_SET, "")
    assert not await authorizer.permits(ALICE, NODE_POOL, "a")
    assert not await authorizer.permits(User("bob"), YURT_APP_SET, "a")
    spec = apiserver.asked[0][1]
    assert (spec["uid"], spec["groups"], spec["extra"]) == ("7", ["devs"], {"k": ["v"]})


async def test_kinds_that_the_console_does_not_read_are_not_permitted(
    authorizer: ApiserverAuthorizer, apiserver: Apiserver
) -> None:
    assert not await authorizer.permits(ALICE, GroupKind("", "Secret"), "a")
    assert not apiserver.asked


async def test_changed_rights_have_effect_after_the_life_of_the_cache(
    authorizer: ApiserverAuthorizer, apiserver: Apiserver, clock: Clock
) -> None:
    right = ("alice", "apps.openyurt.io", "yurtappsets", "")
    assert not await authorizer.permits(ALICE, YURT_APP_SET, "")
    apiserver.rights.add(right)
    clock.now += REFUSED_SECONDS
    assert await authorizer.permits(ALICE, YURT_APP_SET, "")
    apiserver.rights.clear()
    clock.now += CACHE_SECONDS - 1
    assert await authorizer.permits(ALICE, YURT_APP_SET, "")
    clock.now += 1
    assert not await authorizer.permits(ALICE, YURT_APP_SET, "")


async def test_a_user_of_the_same_name_with_other_groups_has_its_own_rights(
    authorizer: ApiserverAuthorizer, apiserver: Apiserver
) -> None:
    apiserver.rights.add(("alice", "apps.openyurt.io", "yurtappsets", ""))
    assert await authorizer.permits(ALICE, YURT_APP_SET, "")
    apiserver.rights.clear()
    assert not await authorizer.permits(User("alice"), YURT_APP_SET, "")


@pytest.mark.parametrize(
    "failure",
    [UnreachableError(f"refused {TOKEN}"), APIError(500, "", f"echo {TOKEN}"), APIError(403, "Forbidden", "no")],
)
async def test_without_an_answer_requests_are_refused_and_no_token_is_logged(
    authorizer: ApiserverAuthorizer, apiserver: Apiserver, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    apiserver.failure = failure
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(AccessError) as unknown_user:
            await authorizer.authenticate(bearer())
        with pytest.raises(AccessError) as unknown_right:
            await authorizer.permits(ALICE, YURT_APP_SET, "")
    assert unknown_user.value.status == unknown_right.value.status == 503
    token_lines = [str(record.__dict__) for record in caplog.records if TOKEN_REVIEWS in str(record.__dict__)]
    assert token_lines
    assert not any(TOKEN in text for text in [*token_lines, str(unknown_user.value)])
    apiserver.failure = None
    assert await authorizer.authenticate(bearer()) == ALICE
