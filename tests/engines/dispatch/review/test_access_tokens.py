"""Reviews of tokens by an apiserver: their cache, its lifetime, shared questions and limits."""

import asyncio
import logging
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.dispatch.review.access import AccessDecision, Tokens, UndecidedError
from fleethook.fair_limits import MAX_WAITING, LimitError
from tests.server.reviewer import ACCESS_REVIEWS, TOKEN_REVIEWS, Reviewer

TOKEN = "an-opaque-token-of-alice"
ALICE: dict[str, Any] = {
    "username": "alice", "uid": "7", "groups": ["devs", "system:authenticated"],
    "extra": {"authentication.kcp.io/scopes": ["cluster:ws3"]},
}  # fmt: skip


class Clock:
    """A clock that tests set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def reviewer() -> Reviewer:
    made = Reviewer()
    made.users[TOKEN] = ALICE
    made.rights.add(("alice", "ws3", "clusters/explain"))
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tokens_of(reviewer: Reviewer, clock: Clock, **rest: Any) -> Tokens:
    return Tokens(reviewer.post, reviewer, **{"clock": clock, **rest})


async def ask(
    tokens: Tokens,
    token: str = TOKEN,
    *,
    cluster: str = "ws3",
    route: str = "explain",
    client: str = "10.0.0.1",
) -> AccessDecision:
    return await tokens.decide(token, cluster=cluster, route=route, client=client, seconds=30.0)


async def test_the_apiserver_decides_about_user_and_rights_of_a_token(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock)
    assert await ask(tokens) == AccessDecision("alice", allowed=True)
    assert await ask(tokens, cluster="ws2") == AccessDecision("alice", allowed=False)
    assert await ask(tokens, route="mutate") == AccessDecision("alice", allowed=False)
    assert await ask(tokens, "somebody-else's") == AccessDecision("", allowed=False)


async def test_the_access_review_is_about_the_user_as_the_apiserver_described_it(
    reviewer: Reviewer, clock: Clock
) -> None:
    await ask(tokens_of(reviewer, clock))
    (_, first), (_, second) = reviewer.asked
    assert first["spec"] == {"token": TOKEN}
    spec = second["spec"]
    assert (spec["user"], spec["uid"], spec["groups"], spec["extra"]) == tuple(ALICE.values())
    asked = {name: value for name, value in spec["resourceAttributes"].items() if value}
    assert asked == {
        "verb": "create", "group": "fleethook.io", "version": "*", "resource": "clusters", "subresource": "explain",
        "name": "ws3",
    }  # fmt: skip


async def test_a_cached_answer_expires(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock)
    await ask(tokens)
    reviewer.rights.clear()
    reviewer.users.clear()
    clock.now += 59
    assert (await ask(tokens)).allowed
    assert len(reviewer.asked) == 2
    clock.now += 1
    assert await ask(tokens) == AccessDecision("")


async def test_a_refused_token_is_reviewed_again_soon(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock)
    assert not (await ask(tokens, cluster="ws2")).allowed
    reviewer.rights.add(("alice", "ws2", "clusters/explain"))
    clock.now += 9
    assert not (await ask(tokens, cluster="ws2")).allowed
    clock.now += 1
    assert (await ask(tokens, cluster="ws2")).allowed


async def test_many_invalid_tokens_evict_no_answer_of_another_caller(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock, limit=10)
    await ask(tokens)
    for number in range(100):
        await ask(tokens, f"invalid-{number}")
    assert reviewer.count(TOKEN_REVIEWS) == 101
    await ask(tokens)
    assert reviewer.count(TOKEN_REVIEWS) == 101
    assert len(tokens._decisions) == 10


async def test_answers_about_one_cluster_evict_none_about_another(reviewer: Reviewer, clock: Clock) -> None:
    reviewer.users |= {f"t{number}": {**ALICE, "username": f"u{number}"} for number in range(100)}
    reviewer.rights |= {(f"u{number}", "ws2", "clusters/explain") for number in range(100)}
    tokens = tokens_of(reviewer, clock, limit=10)
    await ask(tokens)
    for number in range(100):
        assert (await ask(tokens, f"t{number}", cluster="ws2")).allowed
    asked = len(reviewer.asked)
    assert (await ask(tokens)).allowed
    assert len(reviewer.asked) == asked
    assert len(tokens._decisions) == 10


async def test_callers_with_the_same_question_share_one_answer(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock)
    reviewer.answering.clear()
    asking = [asyncio.create_task(ask(tokens)) for _ in range(100)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    reviewer.answering.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert set(found[1:]) == {AccessDecision("alice", allowed=True)}
    assert len(reviewer.asked) == 2


async def test_one_client_with_many_tokens_leaves_room_for_another_client(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock)
    reviewer.answering.clear()
    flood = [
        asyncio.create_task(ask(tokens, f"invalid-{number}", cluster=f"c{number}", client="10.0.0.66"))
        for number in range(33 + MAX_WAITING)
    ]
    async with asyncio.timeout(30):
        while len(reviewer.asked) < 32:
            await asyncio.sleep(0)
        victim = asyncio.create_task(ask(tokens, client="10.0.0.1"))
        while len(reviewer.asked) < 33:
            await asyncio.sleep(0)
    assert reviewer.asked[-1][1]["spec"]["token"] == TOKEN
    reviewer.answering.set()
    assert (await victim).allowed
    found = await asyncio.gather(*flood, return_exceptions=True)
    assert [one for one in found if isinstance(one, Exception)] == [found[-1]]
    assert isinstance(found[-1], LimitError)


@pytest.mark.parametrize(
    "failure",
    [UnreachableError(f"refused {TOKEN}"), APIError(500, "", f"echo {TOKEN}"), APIError(403, "Forbidden", "no right")],
)
async def test_without_an_answer_callers_are_refused_and_nothing_is_cached(
    reviewer: Reviewer, clock: Clock, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = tokens_of(reviewer, clock)
    reviewer.failure = failure
    with caplog.at_level(logging.DEBUG), pytest.raises(UndecidedError) as told:
        await ask(tokens)
    logged = [str(record.__dict__) for record in caplog.records]
    assert logged
    assert not any(TOKEN in text for text in [*logged, str(told.value), repr(tokens._pending)])
    reviewer.failure = None
    assert (await ask(tokens)).allowed


async def test_a_caller_is_refused_if_the_apiserver_takes_too_long(reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(reviewer, clock)
    reviewer.answering.clear()
    with pytest.raises(UndecidedError, match="did not review the token in time"):
        await tokens.decide(TOKEN, cluster="ws3", route="explain", client="", seconds=0.01)
    reviewer.answering.set()
    assert (await ask(tokens)).allowed


@pytest.mark.parametrize(
    ("known", "wanted", "user"),
    [
        ({"fleethook"}, ["fleethook"], "alice"),
        ({"other"}, ["fleethook"], ""),
        # An apiserver without support for audiences: the token is for the apiserver itself.
        (None, ["fleethook"], ""),
        (None, [], "alice"),
    ],
)
async def test_a_token_must_be_for_one_of_the_audiences(
    reviewer: Reviewer, clock: Clock, known: set[str] | None, wanted: list[str], user: str
) -> None:
    reviewer.audiences = known
    assert (await ask(tokens_of(reviewer, clock, audiences=wanted))).user == user


@pytest.mark.parametrize(
    "status",
    [{}, {"authenticated": "true", "user": ALICE}, {"authenticated": True}, {"authenticated": True, "user": {}}],
)
async def test_an_answer_that_names_no_user_accepts_no_token(reviewer: Reviewer, clock: Clock, status: Any) -> None:
    async def post(*_: Any, **__: Any) -> Any:
        return {"status": status}

    assert await ask(Tokens(post, reviewer, clock=clock)) == AccessDecision("")


async def test_with_kcp_each_logical_cluster_authorizes_its_callers(clock: Clock) -> None:
    kcp = Reviewer(every_cluster=True)
    kcp.users[TOKEN] = ALICE
    kcp.clusters |= {"ws2", "ws3"}
    kcp.rights.add(("alice", "ws3", "clusters/explain"))
    tokens = tokens_of(kcp, clock)
    assert (await ask(tokens)).allowed
    assert not (await ask(tokens, cluster="ws2")).allowed
    assert [path for path, _ in kcp.asked] == [
        f"/clusters/{cluster}{reviews}" for cluster in ("ws3", "ws2") for reviews in (TOKEN_REVIEWS, ACCESS_REVIEWS)
    ]


async def test_answers_do_not_reveal_which_logical_clusters_exist(clock: Clock) -> None:
    kcp = Reviewer(every_cluster=True)
    kcp.users[TOKEN] = ALICE
    kcp.clusters |= {"root", "ws2"}
    tokens = tokens_of(kcp, clock)
    for token in (TOKEN, "invalid"):
        assert await ask(tokens, token, cluster="ws2") == await ask(tokens, token, cluster="none")
