"""Complete dispatches to webhooks that answer over TLS."""

from typing import Any

import pytest

from tests.engines.dispatch.builders import WIDGETS, binding, configuration, export, namespace, review, store_of
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, hook

BOUND = (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"))


async def test_as_kcp_reports_one_denial(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = deny("no")
    hooks = (hook(server, "/w", "1.example.org"), hook(server, "/w", "2.example.org"))
    store = store_of(configuration("ws1", "validating", *hooks))
    response = (await front.dispatch(store, review(), cluster="ws1", as_kcp=True)).response
    assert response.status.details is None


@pytest.mark.parametrize("as_kcp", [False, True])
async def test_an_unknown_owner_refuses_the_request_unless_as_kcp(front: Front, server: Webhooks, as_kcp: Any) -> None:
    store = store_of(binding("ws3", "", "widgets.example.org"), configuration("ws3", "validating", hook(server, "/w")))
    response = (await front.dispatch(store, review(), cluster="ws3", as_kcp=as_kcp)).response
    assert response.allowed is as_kcp
    assert server.calls == []
    if not as_kcp:
        problem = "APIBinding widgets of ws3 does not name the cluster of its APIExport (apiExportClusterName)"
        assert (response.code, response.reason) == (403, "Forbidden")
        assert response.message == f'widgets.example.org "b" is forbidden: {problem}'


async def test_configurations_are_never_sent_to_webhooks(front: Front, server: Webhooks) -> None:
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", rules=rules)))
    made = review(configuration("ws1", "validating", name="new"))
    assert (await front.dispatch(store, made, cluster="ws1")).response.allowed
    assert server.calls == []


async def test_namespace_selectors_match_the_consumers_namespace(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    selecting = hook(server, "/w", namespaceSelector={"matchLabels": {"tier": "gold"}})
    store = store_of(
        *BOUND,
        configuration("ws1", "validating", selecting),
        namespace("ws3", tier="gold"),
        namespace("ws1", tier="tin"),
    )
    await front.dispatch(store, review(), cluster="ws3")
    await front.dispatch(store, review(), cluster="ws1")
    assert [call.object["metadata"]["annotations"]["kcp.io/cluster"] for call in server.calls] == ["ws3"]


async def test_a_missing_namespace_refuses_the_request(front: Front, server: Webhooks) -> None:
    selecting = hook(server, "/w", namespaceSelector={"matchLabels": {"tier": "gold"}})
    store = store_of(configuration("ws1", "validating", selecting))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code, response.message) == (
        False,
        404,
        'namespaces "default" not found in logical cluster ws1',
    )


async def test_the_name_of_a_namespace_is_a_label_of_each_namespace(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    named = hook(server, "/w", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}})
    for known in ((), (namespace("ws1", tier="tin"),)):
        store = store_of(configuration("ws1", "validating", named), *known)
        assert (await front.dispatch(store, review(), cluster="ws1")).response.allowed
    assert server.paths == ["/w", "/w"]


@pytest.mark.parametrize(("operation", "subresource"), [("DELETE", ""), ("UPDATE", "status"), ("UPDATE", "finalize")])
async def test_a_namespace_that_is_not_known_yet_has_its_stored_labels(
    front: Front, server: Webhooks, operation: str, subresource: str
) -> None:
    server.answers["/w"] = allow
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces", "namespaces/*"], "operations": ["*"]}
    ]
    selectors = {"/w": "gold", "/other": "tin"}
    hooks = [
        hook(server, path, f"{tier}.example.org", rules=rules, namespaceSelector={"matchLabels": {"tier": tier}})
        for path, tier in selectors.items()
    ]
    stored = namespace("ws1", "shop", tier="gold")
    made = review(
        None if operation == "DELETE" else stored, old=stored, operation=operation, name="shop", namespace="shop",
        subResource=subresource, kind={"group": "", "version": "v1", "kind": "Namespace"},
        resource={"group": "", "version": "v1", "resource": "namespaces"},
    )  # fmt: skip
    store = store_of(configuration("ws1", "validating", *hooks))
    assert (await front.dispatch(store, made, cluster="ws1")).response.allowed
    assert server.paths == ["/w"]


async def test_a_missing_namespace_does_not_matter_if_no_rule_matches(front: Front, server: Webhooks) -> None:
    rules = [{**WIDGETS, "resources": ["gadgets"]}]
    selecting = hook(server, "/w", rules=rules, namespaceSelector={"matchLabels": {"tier": "gold"}})
    store = store_of(configuration("ws1", "validating", selecting))
    assert (await front.dispatch(store, review(), cluster="ws1")).response.allowed
