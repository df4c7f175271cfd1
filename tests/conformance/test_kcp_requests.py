"""`explain` and `webhook test` show webhooks the objects that a kcp sends (kcp_requests.yaml)."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.explanation import explain
from fleethook.engines.dispatch.offline_dispatcher_and_replay import build_offline_dispatcher
from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    RequestOperation,
    RequestOptions,
    make_input_request,
)
from tests.engines.dispatch.builders import configuration, definition, store_of, webhook

FACTS = yaml.safe_load(Path(__file__).with_name("kcp_requests.yaml").read_text())
HAS = "{} != null && has({}.metadata.annotations) && 'kcp.io/cluster' in {}.metadata.annotations"
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def document(kind: str, *, annotated: bool) -> dict[str, Any]:
    version = {"Widget": "example.org/v1", "Scale": "autoscaling/v1"}.get(kind, "v1")
    annotations = {"annotations": {"kcp.io/cluster": "c"}} if annotated else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "default", **annotations}}


@pytest.mark.parametrize("fact", FACTS["annotation"], ids=str)
async def test_objects_have_the_annotation_of_the_cluster_where_kcp_sends_it(fact: dict[str, Any]) -> None:
    reads = [
        webhook(
            f"{name}.example.org", rules=[RULE], matchConditions=[{"name": "c", "expression": HAS.replace("{}", name)}]
        )
        for name in ("object", "oldObject")
    ]
    subresources = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".s"}}
    widgets = definition("c", "widgets.example.org", "v1")
    widgets["spec"]["versions"][0]["subresources"] = subresources
    store = store_of(widgets, *(configuration("c", phase, *reads) for phase in ("mutating", "validating")))
    stored = document(fact["kind"], annotated=fact["kind"] != "Scale")
    options = RequestOptions(
        RequestOperation(fact["operation"]),
        {},
        None if fact["operation"] == "CREATE" else stored,
        dry_run=False,
        resource=f"/{fact['subresource']}" if "subresource" in fact else "",
    )
    if fact["kind"] == "Scale":
        options = options._replace(resource="widgets.example.org/scale")
    source = InputDocument(document(fact["kind"], annotated=fact["sent"]), "m.yaml:1", "c")
    planned = make_input_request(store, source, options)
    explained = await explain(
        build_offline_dispatcher(store),
        planned.request,
        validating=planned.validating,
        cluster="c",
        deadline=Deadline(time.monotonic() + 60),
    )
    for phase, hooks in (("mutating", explained.mutating), ("validating", explained.validating)):
        expected = fact.get(phase, fact.get("object", False)), fact.get("old", False)
        assert tuple(one.decision == "call" for one in hooks) == expected, phase


@pytest.mark.parametrize("fact", FACTS["versions"], ids=str)
async def test_rules_match_both_versions_of_the_kinds_of_kcp(fact: dict[str, Any]) -> None:
    group = "apis.kcp.io"
    rule = RULE | {"apiGroups": [group], "apiVersions": [fact["rule"]], "resources": [fact["plural"]]}
    store = store_of(configuration("c", "validating", webhook(rules=[rule])))
    sent = {"apiVersion": f"{group}/{fact['asked']}", "kind": fact["kind"], "metadata": {"name": "a"}}
    options = RequestOptions(None, {}, None, dry_run=False)
    planned = make_input_request(store, InputDocument(sent, "m.yaml:1", "c"), options)
    explained = await explain(
        build_offline_dispatcher(store), planned.request, cluster="c", deadline=Deadline(time.monotonic() + 60)
    )
    assert [one.decision == "call" for one in explained.validating] == [fact["called"]]
