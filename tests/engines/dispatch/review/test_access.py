"""Callers with the right to have reviews of a logical cluster dispatched and explained."""

import asyncio
import contextlib
import http.client
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.engines.dispatch.dispatch_server import DispatchServer
from fleethook.engines.dispatch.review.access import BusyError, Decision, Tokens, UndecidedError, is_open
from fleethook.server_settings import is_loopback
from fleethook.settings import Settings
from tests.asgi_client import Answer, call
from tests.e2e.pki import Authority, Pair
from tests.engines.dispatch.builders import binding, configuration, export, review, webhook
from tests.engines.dispatch.webhook_server import Webhooks, allow, webhooks
from tests.server.reviewer import ACCESS_REVIEWS, TOKEN_REVIEWS, Reviewer
from tests.serving import MUTATE, REVIEW, Server, serving
from tests.waiting import NET

VERBS = ("mutate", "validate", "explain")
TOKEN = "an-opaque-token-of-alice"


@pytest.fixture
def reviewer(monkeypatch: pytest.MonkeyPatch) -> Reviewer:
    """The apiserver at the other end of every connection."""
    made = Reviewer()
    made.users[TOKEN] = {"username": "alice"}
    made.rights |= {("alice", "ws3", f"clusters/{verb}") for verb in VERBS}

    async def answer(_: Connection, *arguments: Any, **rest: Any) -> Any:
        return await made.post(*arguments, **rest)

    monkeypatch.setattr(Connection, "json", answer)
    return made


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/w"] = allow
        yield made


@contextlib.asynccontextmanager
async def dispatching(
    server: Webhooks, *, log: Callable[[bytes], None] | None = None, **settings: Any
) -> AsyncIterator[Fleethook]:
    """Provide an app that has read all its objects."""
    app = create_app(Settings(private_webhooks=True, **settings), log=log)
    for one in (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org")):
        app.store.put(one)
    for phase in ("mutating", "validating"):
        app.store.put(configuration("ws1", phase, webhook(clientConfig=server.client_config("/w"))))
    app.find_engine(DispatchServer).synced.set()
    async with app.find_engine(DispatchServer).client:
        yield app


async def ask(app: Fleethook, path: str = "/clusters/ws3/validate", *, token: str | None = None) -> Answer:
    headers = {"content-type": "application/json", **({} if token is None else {"authorization": token})}
    return await call(app, path, json.dumps(review()).encode(), headers=headers)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_token_with_the_right_is_answered(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path, verb: str
) -> None:
    lines: list[bytes] = []
    async with dispatching(server, kubeconfig=tmp_path / "none", host="0.0.0.0", log=lines.append) as app:
        answer = await ask(app, f"/clusters/ws3/{verb}", token=f"Bearer {TOKEN}")
    assert answer.status == 200
    assert verb == "explain" or answer.json()["response"]["allowed"] is True
    assert json.loads(lines[-1])["caller"] == "alice"
    assert TOKEN.encode() not in b"".join(lines)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("token", "status", "text"),
    [
        (None, 401, "with credentials only: a bearer token that the apiserver accepts, or a client certificate"),
        ("Bearer ", 401, "with credentials only"),
        (TOKEN, 401, "with credentials only"),
        (f"Basic {TOKEN}", 401, "with credentials only"),
        ("Bearer invalid", 401, "the apiserver does not accept the bearer token"),
        ("Bearer of-bob", 403, "user 'bob' may not {verb} in logical cluster 'ws3': this needs the verb create on clusters/{verb} of fleethook.io with the name 'ws3'"),
    ],
)  # fmt: skip
async def test_other_callers_are_refused_without_side_effects(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path, verb: str, token: str | None, status: int, text: str
) -> None:
    reviewer.users["of-bob"] = {"username": "bob"}
    async with dispatching(server, kubeconfig=tmp_path / "none") as app:
        answer = await ask(app, f"/clusters/ws3/{verb}", token=token)
        metrics = (await call(app, "/metrics", method="GET")).body.decode()
    assert (answer.status, answer.json()["kind"]) == (status, "Status")
    assert text.format(verb=verb) in answer.json()["message"]
    assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    assert server.calls == []
    assert 'cluster="ws3"' not in metrics
    assert TOKEN not in answer.body.decode()


@pytest.mark.parametrize("verb", VERBS)
async def test_callers_without_credentials_are_refused_before_their_body_is_read(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path, verb: str
) -> None:
    async with dispatching(server, kubeconfig=tmp_path / "none", body_limit=10) as app:
        assert (await ask(app, f"/clusters/ws3/{verb}")).status == 401
        assert (await ask(app, f"/clusters/ws3/{verb}", token=f"Bearer {TOKEN}")).status == 413


async def test_a_right_in_one_cluster_does_not_apply_to_another(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path
) -> None:
    async with dispatching(server, kubeconfig=tmp_path / "none") as app:
        app.store.put(binding("ws2", "ws1", "widgets.example.org", name="other"))
        assert (await ask(app, "/clusters/ws2/explain", token=f"Bearer {TOKEN}")).status == 403
        assert (await ask(app, "/clusters/ws3/explain", token=f"Bearer {TOKEN}")).status == 200


async def test_callers_get_503_if_the_apiserver_cannot_review_their_token(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path
) -> None:
    reviewer.failure = UnreachableError("refused")
    async with dispatching(server, kubeconfig=tmp_path / "none") as app:
        assert (await ask(app, token=f"Bearer {TOKEN}")).status == 503
    assert server.calls == []


LOOPBACK = ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")
ELSEWHERE = ("0.0.0.0", "::", "10.0.0.1", "fleethook.example.org", "localhost.example.org", "")


@pytest.mark.parametrize(("hosts", "expected"), [(LOOPBACK, True), (ELSEWHERE, False)])
def test_loopback_addresses_are_known(hosts: tuple[str, ...], expected: bool) -> None:
    assert {is_loopback(host) for host in hosts} == {expected}
    assert {Settings(host=host).calls_private_webhooks for host in hosts} == {expected}


def test_a_setting_decides_about_private_webhooks() -> None:
    assert Settings(host="0.0.0.0", private_webhooks=True).calls_private_webhooks
    assert not Settings(private_webhooks=False).calls_private_webhooks


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"manifests": "x"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "dispatch_open": "loopback"}, False),
        ({"kubeconfig": "x"}, False),
        ({"in_cluster": True}, False),
        ({"kubeconfig": "x", "dispatch_open": "loopback"}, True),
        ({"manifests": "x", "dispatch_open": "loopback"}, True),
        ({"dispatch_open": "never"}, False),
        ({"client_ca_file": "x"}, False),
        ({"client_ca_file": "x", "dispatch_open": "loopback"}, False),
    ],
)
def test_only_loopback_listeners_are_open(settings: dict[str, Any], expected: bool) -> None:
    assert is_open(Settings(**settings)) is expected


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        (
            {"host": "0.0.0.0"},
            ["follows no apiserver", "listens on 0.0.0.0.", "Set client_ca_file and dispatch_callers"],
        ),
        ({"dispatch_open": "never"}, ["listens on 127.0.0.1, with dispatch_open: never."]),
        ({"client_ca_file": "x", "dispatch_callers": ["kcp"]}, ["only: a client certificate that the setting"]),
    ],
)
async def test_a_closed_server_of_manifests_logs_the_settings_to_change(
    server: Webhooks, settings: dict[str, Any], texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with dispatching(server, **settings) as app:
            answers = [await ask(app, f"/clusters/ws3/{verb}", token="Bearer x") for verb in VERBS]
    assert {answer.status for answer in answers} == {401}
    assert all(text in answers[0].json()["message"] for text in texts)
    assert [record.message for record in caplog.records] == (
        [] if "dispatch_callers" in settings else [answers[0].json()["message"]]
    )
    assert server.calls == []


async def test_an_open_server_logs_a_warning_at_start(server: Webhooks, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with dispatching(server) as app:
            assert (await ask(app)).status == 200
    (record,) = caplog.records
    assert "to callers without credentials" in record.message


async def test_a_refused_caller_uses_no_room_of_the_cluster(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path
) -> None:
    reviewer.answering.clear()
    async with dispatching(server, kubeconfig=tmp_path / "none", dispatch_workspace_requests=1) as app:
        waiting = [asyncio.create_task(ask(app, token=f"Bearer invalid-{number}")) for number in range(5)]
        async with asyncio.timeout(NET):
            while len(reviewer.asked) < 5:
                await asyncio.sleep(0)
        assert app.find_engine(DispatchServer).requests.in_flight == {}
        reviewer.answering.set()
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {401}


class Callers:
    """A real server that knows client certificates, and clients of two authorities."""

    def __init__(self, server: Server, directory: Path, authority: Authority) -> None:
        self._server = server
        self.named = authority.issue("kube-apiserver", "system:masters", addresses=("apiserver.example.org",))
        self.unnamed = authority.issue("alice", "kube-apiserver")
        (directory / "foreign").mkdir()
        self.foreign = Authority(directory / "foreign", "client-ca").issue("kube-apiserver")

    def ask(self, path: str, pair: Pair | None, body: bytes = b"") -> tuple[int, Any]:
        context = self._server.context()
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection("localhost", self._server.port, context=context, timeout=NET)
        with contextlib.closing(connection):
            given = body or json.dumps(review()).encode()
            connection.request("POST", path, body=given, headers={"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@pytest.mark.parametrize("name", ["kube-apiserver", "apiserver.example.org"])
def test_a_real_server_answers_callers_that_it_names_by_certificate(tmp_path: Path, name: str) -> None:
    authority = Authority(tmp_path, "client-ca")
    environment = {"FLEETHOOK_DISPATCH_CALLERS": json.dumps([name])}
    with serving(tmp_path, "--client-ca-file", str(authority.certificate), **environment) as server:
        callers = Callers(server, tmp_path, authority)
        status, answer = callers.ask("/clusters/ws3/explain", callers.named)
        assert (status, answer["cluster"]) == (200, "ws3")
        for verb in VERBS:
            assert callers.ask(f"/clusters/ws3/{verb}", callers.named)[0] == 200
            assert callers.ask(f"/clusters/ws3/{verb}", callers.unnamed)[0] == 401
            assert callers.ask(f"/clusters/ws3/{verb}", None)[0] == 401
            with pytest.raises((ssl.SSLError, ConnectionError)):
                callers.ask(f"/clusters/ws3/{verb}", callers.foreign)
        # The other routes take any certificate of the authority, as before.
        assert callers.ask(MUTATE, callers.unnamed, REVIEW.read_bytes())[0] == 200
        assert callers.ask(MUTATE, None, REVIEW.read_bytes())[0] == 403


def test_openapi_describes_the_refusals_of_routes_with_authorization() -> None:
    document = create_app(Settings(), log=None).openapi()
    refusing = {path for path, item in document["paths"].items() if "401" in item.get("post", {}).get("responses", {})}
    assert refusing == {f"/clusters/{{cluster}}/{verb}" for verb in VERBS}


TOKEN_OF_TOKEN = "an-opaque-token-of-alice"
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
def token_reviewer() -> Reviewer:
    made = Reviewer()
    made.users[TOKEN_OF_TOKEN] = ALICE
    made.rights.add(("alice", "ws3", "clusters/explain"))
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tokens_of(token_reviewer: Reviewer, clock: Clock, **rest: Any) -> Tokens:
    return Tokens(token_reviewer.post, token_reviewer, **{"seconds": 60.0, "clock": clock, **rest})


async def token_ask(
    tokens: Tokens,
    token: str = TOKEN_OF_TOKEN,
    *,
    cluster: str = "ws3",
    route: str = "explain",
    client: str = "10.0.0.1",
) -> Decision:
    return await tokens.decide(token, cluster=cluster, route=route, client=client, seconds=30.0)


async def test_the_apiserver_decides_about_user_and_rights_of_a_token(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock)
    assert await token_ask(tokens) == Decision("alice", allowed=True)
    assert await token_ask(tokens, cluster="ws2") == Decision("alice", allowed=False)
    assert await token_ask(tokens, route="mutate") == Decision("alice", allowed=False)
    assert await token_ask(tokens, "somebody-else's") == Decision("", allowed=False)


async def test_the_access_review_is_about_the_user_as_the_apiserver_described_it(
    token_reviewer: Reviewer, clock: Clock
) -> None:
    await token_ask(tokens_of(token_reviewer, clock))
    (_, first), (_, second) = token_reviewer.asked
    assert first["spec"] == {"token": TOKEN_OF_TOKEN}
    spec = second["spec"]
    assert (spec["user"], spec["uid"], spec["groups"], spec["extra"]) == tuple(ALICE.values())
    asked = {name: value for name, value in spec["resourceAttributes"].items() if value}
    assert asked == {
        "verb": "create", "group": "fleethook.io", "version": "*", "resource": "clusters", "subresource": "explain",
        "name": "ws3",
    }  # fmt: skip


async def test_a_cached_answer_expires(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock)
    await token_ask(tokens)
    token_reviewer.rights.clear()
    token_reviewer.users.clear()
    clock.now += 59
    assert (await token_ask(tokens)).allowed
    assert len(token_reviewer.asked) == 2
    clock.now += 1
    assert await token_ask(tokens) == Decision("")


async def test_one_apiserver_reviews_a_token_once_for_all_clusters(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock)
    for cluster in ("ws1", "ws2", "ws3"):
        await token_ask(tokens, cluster=cluster)
    assert (token_reviewer.count(TOKEN_REVIEWS), token_reviewer.count(ACCESS_REVIEWS)) == (1, 3)


async def test_a_refused_token_is_reviewed_again_soon(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock)
    assert not (await token_ask(tokens, cluster="ws2")).allowed
    token_reviewer.rights.add(("alice", "ws2", "clusters/explain"))
    clock.now += 9
    assert not (await token_ask(tokens, cluster="ws2")).allowed
    clock.now += 1
    assert (await token_ask(tokens, cluster="ws2")).allowed


async def test_without_a_lifetime_no_answer_is_cached(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock, seconds=0.0)
    await token_ask(tokens)
    await token_ask(tokens)
    await token_ask(tokens, cluster="ws2")
    await token_ask(tokens, cluster="ws2")
    assert (token_reviewer.count(TOKEN_REVIEWS), token_reviewer.count(ACCESS_REVIEWS)) == (4, 4)


async def test_many_invalid_tokens_evict_no_answer_of_another_caller(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock, limit=10)
    await token_ask(tokens)
    for number in range(100):
        await token_ask(tokens, f"invalid-{number}")
    assert token_reviewer.count(TOKEN_REVIEWS) == 101
    await token_ask(tokens)
    assert token_reviewer.count(TOKEN_REVIEWS) == 101
    assert len(tokens._refused) == 10


async def test_answers_about_one_cluster_evict_none_about_another(token_reviewer: Reviewer, clock: Clock) -> None:
    token_reviewer.users |= {f"t{number}": {**ALICE, "username": f"u{number}"} for number in range(100)}
    token_reviewer.rights |= {(f"u{number}", "ws2", "clusters/explain") for number in range(100)}
    tokens = tokens_of(token_reviewer, clock, limit=10)
    await token_ask(tokens)
    for number in range(100):
        assert (await token_ask(tokens, f"t{number}", cluster="ws2")).allowed
    asked = len(token_reviewer.asked)
    assert (await token_ask(tokens)).allowed
    assert len(token_reviewer.asked) == asked
    assert len(tokens._allowed) == 10


async def test_callers_with_the_same_question_share_one_answer(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock)
    token_reviewer.answering.clear()
    asking = [asyncio.create_task(token_ask(tokens)) for _ in range(100)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    token_reviewer.answering.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert set(found[1:]) == {Decision("alice", allowed=True)}
    assert len(token_reviewer.asked) == 2


async def test_one_client_with_many_tokens_leaves_room_for_another_client(
    token_reviewer: Reviewer, clock: Clock
) -> None:
    tokens = tokens_of(token_reviewer, clock)
    token_reviewer.answering.clear()
    flood = [
        asyncio.create_task(token_ask(tokens, f"invalid-{number}", cluster=f"c{number}", client="10.0.0.66"))
        for number in range(1000)
    ]
    async with asyncio.timeout(30):
        while len(token_reviewer.asked) < 32:
            await asyncio.sleep(0)
        victim = asyncio.create_task(token_ask(tokens, client="10.0.0.1"))
        while len(token_reviewer.asked) < 33:
            await asyncio.sleep(0)
    assert token_reviewer.asked[-1][1]["spec"]["token"] == TOKEN_OF_TOKEN
    token_reviewer.answering.set()
    assert (await victim).allowed
    found = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(one, BusyError) for one in found) > 500


@pytest.mark.parametrize(
    "failure",
    [UnreachableError(f"refused {TOKEN}"), APIError(500, "", f"echo {TOKEN}"), APIError(403, "Forbidden", "no right")],
)
async def test_without_an_answer_callers_are_refused_and_nothing_is_cached(
    token_reviewer: Reviewer, clock: Clock, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = tokens_of(token_reviewer, clock)
    token_reviewer.failure = failure
    with caplog.at_level(logging.DEBUG), pytest.raises(UndecidedError) as told:
        await token_ask(tokens)
    logged = [str(record.__dict__) for record in caplog.records]
    assert logged
    assert not any(TOKEN_OF_TOKEN in text for text in [*logged, str(told.value), repr(tokens._pending)])
    token_reviewer.failure = None
    assert (await token_ask(tokens)).allowed


async def test_a_caller_is_refused_if_the_apiserver_takes_too_long(token_reviewer: Reviewer, clock: Clock) -> None:
    tokens = tokens_of(token_reviewer, clock)
    token_reviewer.answering.clear()
    with pytest.raises(UndecidedError, match="did not review the token in time"):
        await tokens.decide(TOKEN_OF_TOKEN, cluster="ws3", route="explain", client="", seconds=0.01)
    token_reviewer.answering.set()
    assert (await token_ask(tokens)).allowed


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
    token_reviewer: Reviewer, clock: Clock, known: set[str] | None, wanted: list[str], user: str
) -> None:
    token_reviewer.audiences = known
    assert (await token_ask(tokens_of(token_reviewer, clock, audiences=wanted))).user == user


@pytest.mark.parametrize(
    "status",
    [{}, {"authenticated": "true", "user": ALICE}, {"authenticated": True}, {"authenticated": True, "user": {}}],
)
async def test_an_answer_that_names_no_user_accepts_no_token(
    token_reviewer: Reviewer, clock: Clock, status: Any
) -> None:
    async def post(*_: Any, **__: Any) -> Any:
        return {"status": status}

    assert await token_ask(Tokens(post, token_reviewer, seconds=60.0, clock=clock)) == Decision("")


async def test_with_kcp_each_logical_cluster_authorizes_its_callers(clock: Clock) -> None:
    kcp = Reviewer(every_cluster=True)
    kcp.users[TOKEN_OF_TOKEN] = ALICE
    kcp.clusters |= {"ws2", "ws3"}
    kcp.rights.add(("alice", "ws3", "clusters/explain"))
    tokens = tokens_of(kcp, clock)
    assert (await token_ask(tokens)).allowed
    assert not (await token_ask(tokens, cluster="ws2")).allowed
    assert [path for path, _ in kcp.asked] == [
        f"/clusters/{cluster}{reviews}" for cluster in ("ws3", "ws2") for reviews in (TOKEN_REVIEWS, ACCESS_REVIEWS)
    ]


async def test_answers_do_not_reveal_which_logical_clusters_exist(clock: Clock) -> None:
    kcp = Reviewer(every_cluster=True)
    kcp.users[TOKEN_OF_TOKEN] = ALICE
    kcp.clusters.add("ws2")
    tokens = tokens_of(kcp, clock)
    for token in (TOKEN_OF_TOKEN, "invalid"):
        assert await token_ask(tokens, token, cluster="ws2") == await token_ask(tokens, token, cluster="none")
