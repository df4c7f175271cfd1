import copy
from typing import Any

import pytest

from fleethook.cluster.registration.consumer_bindings_and_webhooks import describe_state, list_writes, read_consumer
from tests.kcp_export import make_binding

KIND = "ValidatingWebhookConfiguration"
PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HOOKS = {one[0]: f"{one}webhookconfigurations.admissionregistration.k8s.io" for one in ("validating", "mutating")}
WEBHOOK = {"name": "a.rules.fleethook.io", "clientConfig": {"url": "https://h/a"}, "matchConditions": [], "rules": [1]}


def wanted(*webhooks: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "fleethook-guard", "labels": {"l": "1"}, "annotations": {"a": "1"}}
    return {"apiVersion": "v1", "kind": KIND, "metadata": metadata, "webhooks": list(webhooks)}


def stored(**changes: Any) -> dict[str, Any]:
    """Return the configuration as kcp stores it: without empty lists, with labels of its own."""
    consumer = read_consumer([make_binding("c")])
    assert consumer is not None
    kept = {name: one for name, one in WEBHOOK.items() if one != []}
    metadata = {
        "name": "fleethook-guard", "resourceVersion": "7", "labels": {"l": "1", "kcp": "x"}, "annotations": {"a": "1", "kcp.io/cluster": "c"},
        "ownerReferences": list(consumer.owners),
    }  # fmt: skip
    return {**wanted(kept), "metadata": metadata | changes.pop("metadata", {}), **changes}


@pytest.mark.parametrize(
    ("binding", "state", "text"),
    [
        (make_binding("c"), "covered", ""),
        (make_binding("c", configmaps="Rejected"), "covered", ""),
        (
            make_binding("c", validatingwebhookconfigurations="Rejected"),
            "unaccepted",
            f"its APIBinding has the permission claim for {HOOKS['v']} in state Rejected",
        ),
        (
            make_binding("c", mutatingwebhookconfigurations=""),
            "unaccepted",
            f"its APIBinding accepts no permission claim for {HOOKS['m']}, or the APIExport has none",
        ),
        (
            make_binding("c") | {"status": {"phase": "Bound"}},
            "unaccepted",
            "; ".join(f"kcp has not applied the permission claim for {one}" for one in HOOKS.values()),
        ),
        (
            make_binding("c") | {"status": {"phase": "Binding", "conditions": [{"status": "False", "message": "no"}]}},
            "unbound",
            "its APIBinding guard-3lhv4 is not bound (Binding): no",
        ),
    ],
)
def test_the_state_of_a_consumer_has_the_reason(binding: dict[str, Any], state: str, text: str) -> None:
    consumer = read_consumer([binding])
    assert consumer is not None
    assert describe_state(consumer, ()) == (state, text)
    assert (consumer.cluster, consumer.name) == ("c", "root:c (c)")


def test_objects_that_a_consumer_selects_are_not_all_objects() -> None:
    binding = make_binding("c")
    for one in binding["status"]["appliedPermissionClaims"]:
        one["selector"] = {"matchLabels": {"a": "b"}}
    consumer = read_consumer([binding])
    assert consumer is not None
    assert describe_state(consumer, ())[0] == "covered"
    text = "its APIBinding accepts the permission claim for configmaps only for some objects"
    assert describe_state(consumer, [("", "configmaps")], complete=True) == ("unaccepted", text)


def test_a_binding_that_is_being_deleted_makes_no_consumer() -> None:
    gone = make_binding("c", name="old")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_consumer([gone]) is None
    renamed = read_consumer([gone, make_binding("c", name="new")])
    assert renamed is not None
    assert [one["name"] for one in renamed.owners] == ["new"]


EDITS: dict[str, dict[str, Any]] = {
    "rules": {"webhooks": [{**WEBHOOK, "rules": [2]}]},
    "condition": {"webhooks": [{**WEBHOOK, "matchConditions": [{"name": "x", "expression": "false"}]}]},
    "another webhook": {"webhooks": [WEBHOOK, {**WEBHOOK, "name": "b"}]},
    "no webhook": {"webhooks": None},
    "label": {"metadata": {"labels": {}}},
    "annotation": {"metadata": {"annotations": {"kcp.io/cluster": "c"}}},
    "owner": {"metadata": {"ownerReferences": []}},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_configuration_is_replaced_and_keeps_the_labels_of_kcp(edit: str) -> None:
    consumer = read_consumer([make_binding("c")])
    assert consumer is not None
    found = stored(**copy.deepcopy(EDITS[edit]))
    (one,) = list_writes(consumer, [wanted(WEBHOOK)], {KIND: found})
    assert (one.method, one.path) == ("PUT", f"{PATH}/fleethook-guard")
    assert one.body is not None
    assert one.body["webhooks"] == [WEBHOOK]
    metadata = one.body["metadata"]
    assert metadata["resourceVersion"] == "7"
    assert metadata["labels"] == {**found["metadata"]["labels"], "l": "1"}
    assert metadata["ownerReferences"] == list(consumer.owners)


def test_only_what_differs_is_written() -> None:
    consumer = read_consumer([make_binding("c")])
    assert consumer is not None
    assert list_writes(consumer, [wanted(WEBHOOK)], {KIND: stored()}) == []
    assert [one.method for one in list_writes(consumer, [wanted(WEBHOOK)], {})] == ["POST"]
    assert [one.method for one in list_writes(consumer, [wanted()], {KIND: stored()})] == ["DELETE"]
    assert list_writes(consumer, [wanted()], {}) == []
