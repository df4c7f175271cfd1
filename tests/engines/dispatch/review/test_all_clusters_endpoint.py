"""``/dispatch/mutate`` and ``/dispatch/validate``: one registration for all logical clusters."""

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.patch import apply
from fleethook.server.reviews.http_checks import EXTENSION, make_client_extension
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    export,
    logical_cluster,
    review,
    webhook,
    widget,
)
from tests.engines.dispatch.webhook_server import Webhooks, deny, patch, webhooks

CALLER = "kube-apiserver"
VERBS = ("mutate", "validate")


def certificate(name: str) -> dict[str, Any]:
    return {"subject": ((("commonName", name),),)}


def of(cluster: str | None, **spec: Any) -> dict[str, Any]:
    made = widget(**spec)
    if cluster is not None:
        made["metadata"]["annotations"] = {"kcp.io/cluster": cluster}
    return made


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/ws1"] = deny("ws1 says no")
        yield made


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    return []


@pytest.fixture
async def app(server: Webhooks, lines: list[dict[str, Any]], tmp_path: Path) -> AsyncIterator[Fleethook]:
    settings = Settings(dispatch_callers=[CALLER], client_ca_file=tmp_path / "ca.crt")
    made = create_app(settings, log=lambda line: lines.append(json.loads(line)))
    hook = webhook(clientConfig=server.client_config("/ws1"))
    for document in (
        configuration("ws1", "mutating", hook), configuration("ws1", "validating", hook),
        binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"),
    ):  # fmt: skip
        made.store.put(document)
    async with made.router.lifespan_context(made):
        yield made


async def ask(
    app: Fleethook, verb: str, made: Any, *, caller: str | None = CALLER, base: str = "/dispatch", **rest: Any
) -> Any:
    shown = certificate(caller) if caller else None
    extensions = {
        "tls": {"client_cert_name": f"commonName={caller}" if caller else None}, EXTENSION: make_client_extension(shown)
    }  # fmt: skip
    return await call(app, f"{base}/{verb}", json.dumps(made).encode(), extensions=extensions, **rest)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("cluster", ["ws1", "ws3"])
async def test_the_annotation_of_the_objects_selects_the_webhooks(
    app: Fleethook, server: Webhooks, lines: list[dict[str, Any]], verb: str, cluster: str
) -> None:
    response = (await ask(app, verb, review(of(cluster)))).json()["response"]
    assert (response["uid"], response["allowed"]) == ("u-1", False)
    assert response["status"]["message"] == 'admission webhook "w.example.org" denied the request: ws1 says no'
    assert server.calls[0].object["metadata"]["annotations"] == {"kcp.io/cluster": cluster}
    assert (lines[0]["route"], lines[0]["cluster"], lines[0]["owner"]) == (f"/dispatch/{verb}", cluster, "ws1")


async def test_the_patch_keeps_the_annotation(app: Fleethook, server: Webhooks) -> None:
    server.answers["/ws1"] = patch(
        {"op": "add", "path": "/spec/colour", "value": "red"}, {"op": "remove", "path": "/metadata/annotations"}
    )
    response = (await ask(app, "mutate", review(of("ws3")))).json()["response"]
    assert apply(of("ws3"), json.loads(base64.b64decode(response["patch"]))) == of("ws3", colour="red")


@pytest.mark.parametrize("verb", VERBS)
async def test_a_deletion_goes_to_the_cluster_of_the_stored_object(app: Fleethook, server: Webhooks, verb: str) -> None:
    await ask(app, verb, review(None, old=of("ws3"), operation="DELETE"))
    assert [one.review["request"]["oldObject"]["metadata"]["annotations"] for one in server.calls] == [
        {"kcp.io/cluster": "ws3"}
    ]


@pytest.mark.parametrize("verb", VERBS)
async def test_an_unknown_cluster_of_a_stored_object_has_no_webhooks(app: Fleethook, verb: str) -> None:
    assert (await ask(app, verb, review(of("new")))).json()["response"] == {"uid": "u-1", "allowed": True}
    # The path of a route is no proof by the apiserver that stores the object.
    refused = (await ask(app, verb, review(of("new")), base="/clusters/new")).json()["response"]
    assert (refused["allowed"], refused["status"]["code"]) == (False, 403)
    assert "logical cluster new is unknown" in refused["status"]["message"]


@pytest.mark.parametrize("verb", VERBS)
async def test_an_unknown_cluster_is_refused_if_the_source_has_logical_clusters(app: Fleethook, verb: str) -> None:
    app.store.put(logical_cluster("ws3"))
    response = (await ask(app, verb, review(of("new")))).json()["response"]
    assert not response["allowed"]
    assert "logical cluster new is unknown" in response["status"]["message"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("caller", "text"),
    [
        (None, "show a client certificate"),
        ("mallory", "the client certificate (commonName=mallory) has none of these names"),
    ],
)
async def test_only_named_callers_are_answered(
    app: Fleethook, server: Webhooks, verb: str, caller: str | None, text: str
) -> None:
    answer = await ask(app, verb, review(of("ws3")), caller=caller)
    assert (answer.status, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["message"] == (
        f"this route answers only callers that the setting dispatch_callers names: {text}"
    )
    assert server.calls == []


@pytest.mark.parametrize("verb", VERBS)
async def test_without_named_callers_the_routes_are_off(verb: str) -> None:
    app = create_app(Settings(), log=None)
    answer = await ask(app, verb, review(of("ws3")))
    assert (answer.status, answer.json()["reason"]) == (404, "NotFound")
    assert answer.json()["message"].startswith(f"/dispatch/{verb} is off: name the callers that may use it")


@pytest.mark.parametrize("path", ["/dispatch/mutate", "/dispatch/validate"])
@pytest.mark.parametrize("hops", ["1", "2", "", "x"])
async def test_a_review_that_was_dispatched_is_not_dispatched_again(
    app: Fleethook, server: Webhooks, path: str, hops: str
) -> None:
    verb = path.rpartition("/")[2]
    headers = {"content-type": "application/json", "Fleethook-Hops": hops}
    response = (await ask(app, verb, review(of("ws3")), headers=headers)).json()["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 508)
    assert response["status"]["reason"] == "LoopDetected"
    assert "fleethook dispatched this review before (header Fleethook-Hops)" in response["status"]["message"]
    assert server.calls == []


async def test_a_body_without_a_review_is_a_bad_request(app: Fleethook) -> None:
    assert (await ask(app, "validate", [])).status == 400
    broken = review(of("ws3"), operation="GUESS")
    assert (await ask(app, "validate", broken)).json()["response"]["status"]["code"] == 400


@pytest.mark.parametrize("verb", VERBS)
async def test_a_request_counts_for_the_cluster_of_its_objects(app: Fleethook, verb: str) -> None:
    with contextlib.ExitStack() as others:
        for _ in range(app.parts.capacity.connections // 2):
            others.enter_context(app.engines["dispatch"].requests.hold("ws3"))
        refused = (await ask(app, verb, review(of("ws3")))).json()["response"]
        assert (refused["allowed"], refused["status"]["code"]) == (False, 429)
        assert (await ask(app, verb, review(of("ws1")))).json()["response"]["status"]["code"] != 429
    text = (await call(app, "/metrics", method="GET")).body.decode()
    assert 'fleethook_dispatch_requests_refused_total{cluster="ws3"} 1.0' in text
    assert f'fleethook_dispatch_requests_total{{cluster="ws1",outcome="denied",route="{verb}"}} 1.0' in text
