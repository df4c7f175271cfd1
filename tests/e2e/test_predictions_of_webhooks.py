"""The predictions of ``fleethook replay`` for edits of webhook configurations are the outcomes."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.replays import Recording, ask, copy_records, find_changed, run_replay
from tests.engines.dispatch.builders import WIDGETS, binding, configuration, export, review, webhook, widget
from tests.engines.dispatch.webhook_server import Call, Webhooks, allow, webhooks
from tests.serving import Server
from tests.waiting import wait_for

JSONObject = dict[str, Any]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
VALIDATE = "/clusters/{cluster}/validate"
PROVIDER, CONSUMERS = "pr-provider", ("pr-east", "pr-west")


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        yield made


def make_widget_reviews() -> list[tuple[str, JSONObject]]:
    """Return reviews of the provider's and the consumers' clusters, with sizes on both sides of each limit."""
    made = []
    for cluster, operation, size in itertools.product(CONSUMERS, ("CREATE", "UPDATE", "DELETE"), range(5, 30, 5)):
        uid = f"{cluster}-{operation}-{size}"
        document = widget(size=size)
        old = None if operation == "CREATE" else document
        sent = review(None if operation == "DELETE" else document, old=old, operation=operation, uid=uid)
        made.append((f"/clusters/{cluster}/validate", sent))
    return made


def name_review(call: Call) -> str:
    """Return the uid of the review for which fleethook made a call, which has a uid of its own."""
    cluster, operation = call.object["metadata"]["annotations"]["kcp.io/cluster"], call.review["request"]["operation"]
    return f"{cluster}-{operation}-{call.object['spec']['size']}"


def deny_large(made: JSONObject) -> JSONObject:
    document = made["request"]["object"] or made["request"]["oldObject"]
    if document["spec"]["size"] <= 10:
        return {"allowed": True}
    return {"allowed": False, "status": {"message": f"{document['spec']['size']} is too large"}}


def make_configuration(hooks: Webhooks, **members: Any) -> JSONObject:
    made = webhook(clientConfig=hooks.client_config("/size"), **members)
    return configuration(PROVIDER, "validating", made, name="pr-size")


def follow_widgets(put: Callable[[str, JSONObject], Any]) -> None:
    put("/apis/apis.kcp.io/v1alpha2/apiexports", export(PROVIDER, "widgets.example.org", name="pr-widgets"))
    for cluster in CONSUMERS:
        bound = binding(cluster, PROVIDER, "widgets.example.org", name=cluster, export="pr-widgets")
        put("/apis/apis.kcp.io/v1alpha2/apibindings", bound)


def list_called(server: Server, cluster: str) -> list[str]:
    """Return the webhooks to which the creation of a Widget of size 15 is sent."""
    body = json.dumps(review(widget(size=15), uid="explained")).encode()
    found = json.loads(server.request("POST", f"/clusters/{cluster}/explain", body)[1])
    return sorted(one["webhook"] for one in found["validating"] if one["decision"] == "call")


def wait_for_webhooks(server: Server, names: list[str]) -> None:
    for cluster in CONSUMERS:
        wait_for(lambda cluster=cluster: list_called(server, cluster) == names, what=f"{names} are called in {cluster}")


class WidgetEdit(NamedTuple):
    """An edit of webhook configurations.

    Attributes:
        name: A description.
        documents: The configurations to write.
        deletes: Whether the configuration, which has no webhooks then, is deleted.
        called: The webhooks that are called for a Widget of size 15 after the edit.
        changed: The number of reviews with another verdict.
    """

    name: str
    documents: list[JSONObject]
    deletes: bool
    called: list[str]
    changed: int


def make_edits(hooks: Webhooks) -> list[WidgetEdit]:
    # Of 30 reviews, 18 have a size above 10, and 6 of these a size above 20.
    only_huge = [{"name": "huge", "expression": "(object == null ? oldObject : object).spec.size > 20"}]
    creations = [{**WIDGETS, "operations": ["CREATE"]}]
    narrowed = make_configuration(hooks, matchConditions=only_huge)
    in_creations = make_configuration(hooks, rules=creations)
    new = webhook("new.example.org", clientConfig=hooks.client_config("/new"), rules=creations)
    added = configuration(PROVIDER, "validating", new, name="pr-new")
    return [
        WidgetEdit("a match condition", [narrowed], False, [], 12),
        WidgetEdit("a rule for creations only", [in_creations], False, ["w.example.org"], 12),
        WidgetEdit("without the configuration", [{**narrowed, "webhooks": []}], True, [], 18),
        WidgetEdit("a new webhook", [added], False, ["new.example.org", "w.example.org"], 0),
    ]


def check_widgets(
    recording: Recording, plane: ControlPlane, directory: Path, hooks: Webhooks, put: Callable[..., Any]
) -> None:
    server, reviews, admin = recording.server, make_widget_reviews(), plane.api()
    first = make_configuration(hooks)
    follow_widgets(put)
    put(CONFIGURATIONS, first)
    wait_for_webhooks(server, ["w.example.org"])
    before = ask(server, reviews)
    assert sum(not one["allowed"] for one in before.values()) == 18
    records = copy_records(recording.records, directory, reviews)
    for edit in make_edits(hooks):
        predicted = run_replay(plane, records, directory, *edit.documents, route=VALIDATE)
        for document in edit.documents:
            path = f"{CONFIGURATIONS}/{document['metadata']['name']}"
            admin.delete(path) if edit.deletes else admin.apply(path, document)
        wait_for_webhooks(server, edit.called)
        hooks.calls.clear()
        changed = find_changed(before, ask(server, reviews))
        assert predicted.uids == changed
        assert len(changed) == edit.changed
        assert predicted.undecidable == {name_review(one) for one in hooks.calls if one.path == "/new"}
        restore(admin, first)
        wait_for_webhooks(server, ["w.example.org"])


def restore(admin: Api, first: JSONObject) -> None:
    admin.call("DELETE", f"{CONFIGURATIONS}/pr-new")
    admin.apply(f"{CONFIGURATIONS}/pr-size", first)


@pytest.mark.timeout(1800)
async def test_replay_predicts_edits_of_webhook_configurations(
    recording: Recording, plane: ControlPlane, put: Callable[..., Any], hooks: Webhooks, tmp_path: Path
) -> None:
    hooks.answers |= {"/size": deny_large, "/new": allow}
    await asyncio.to_thread(check_widgets, recording, plane, tmp_path, hooks, put)
