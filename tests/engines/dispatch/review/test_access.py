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
from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.engines.dispatch.review.access import is_allowed, is_open, read_reviewed_user
from fleethook.server_settings import is_loopback
from fleethook.settings import Settings
from tests.asgi_client import Answer, call
from tests.engines.dispatch.builders import binding, configuration, export, review, webhook, workspace
from tests.engines.dispatch.webhook_server import Webhooks, allow, webhooks
from tests.pki import Authority, Pair
from tests.server.reviewer import Reviewer
from tests.serving import MUTATE, REVIEW, Server, serving
from tests.waiting import NET, until

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
    app.engines["dispatch"].synced.set()
    async with app.engines["dispatch"].client:
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


async def test_an_answer_about_a_path_does_not_name_its_cluster(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path
) -> None:
    reviewer.users["of-bob"] = {"username": "bob"}
    async with dispatching(server, kubeconfig=tmp_path / "none") as app:
        app.store.put(workspace("root", "team", "ws3"))
        paths = ["root:team", "root:none"]
        answers = [await ask(app, f"/clusters/{one}/explain", token="Bearer of-bob") for one in paths]
    texts = [one.body.decode().replace(path, "PATH") for one, path in zip(answers, paths, strict=True)]
    assert (answers[0].status, texts[0]) == (403, texts[1])


@pytest.mark.parametrize("verb", VERBS)
async def test_callers_without_credentials_are_refused_before_their_body_is_read(
    server: Webhooks, reviewer: Reviewer, tmp_path: Path, verb: str
) -> None:
    async with dispatching(server, kubeconfig=tmp_path / "none", body_limit=10) as app:
        assert (await ask(app, f"/clusters/ws3/{verb}")).status == 401
        assert (await ask(app, f"/clusters/ws3/{verb}", token=f"Bearer {TOKEN}")).status == 413


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
    async with dispatching(server, kubeconfig=tmp_path / "none") as app:
        waiting = [asyncio.create_task(ask(app, token=f"Bearer invalid-{number}")) for number in range(5)]
        await until(lambda: len(reviewer.asked) == 5)
        assert app.engines["dispatch"].requests.in_flight == {}
        reviewer.answering.set()
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {401}


class Callers:
    """A real server that knows client certificates, and clients of two authorities."""

    def __init__(self, server: Server, directory: Path, authority: Authority) -> None:
        self._server = server
        self.named = authority.issue("kube-apiserver", "system:masters")
        self.addressed = authority.issue("kcp", addresses=("apiserver.example.org",))
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


def test_a_real_server_answers_callers_that_it_names_by_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "client-ca")
    environment = {"FLEETHOOK_DISPATCH_CALLERS": json.dumps(["kube-apiserver", "apiserver.example.org"])}
    with serving(tmp_path, "--client-ca-file", str(authority.certificate), **environment) as server:
        callers = Callers(server, tmp_path, authority)
        status, answer = callers.ask("/clusters/ws3/explain", callers.named)
        assert (status, answer["cluster"]) == (200, "ws3")
        for verb in VERBS:
            assert callers.ask(f"/clusters/ws3/{verb}", callers.named)[0] == 200
            assert callers.ask(f"/clusters/ws3/{verb}", callers.addressed)[0] == 200
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


ALICE = {"username": "alice", "uid": "7", "groups": ["devs"], "extra": {"b": ["2"], "a": ["1"]}}


def test_the_user_has_all_that_the_apiserver_says_about_it() -> None:
    user = read_reviewed_user({"status": {"authenticated": True, "user": ALICE}}, ())
    assert user == {"user": "alice", "uid": "7", "groups": ["devs"], "extra": {"b": ["2"], "a": ["1"]}}


@pytest.mark.parametrize(
    "status", [{}, {"user": ALICE}, {"authenticated": "true", "user": ALICE}, {"authenticated": True, "user": {}}]
)
def test_an_answer_without_an_authenticated_user_accepts_no_token(status: Any) -> None:
    assert read_reviewed_user({"status": status}, ()) is None


def test_a_token_for_another_audience_is_not_accepted() -> None:
    answer: Any = {"status": {"authenticated": True, "user": ALICE, "audiences": ["other"]}}
    assert read_reviewed_user(answer, ["wanted"]) is None
    assert read_reviewed_user(answer, ["other"]) is not None


def test_a_right_needs_an_answer_that_allows_and_does_not_deny() -> None:
    assert is_allowed({"status": {"allowed": True}})
    for status in [{}, {"allowed": "true"}, {"allowed": True, "denied": True}, {"allowed": False}]:
        assert not is_allowed({"status": status})
