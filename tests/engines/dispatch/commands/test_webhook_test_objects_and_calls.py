"""The objects and reviews that ``fleethook webhook test`` sends, and the outcomes of its calls."""

import time
from typing import Any

import pytest

from fleethook.cli.trial_report import REDACTED, Trial
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.dispatch.commands.webhook_test_objects_and_calls import select_objects, try_webhooks
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.request_from_manifest import InputDocument, InputRequest
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.explaining import explain
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import (
    WIDGETS,
    configuration,
    definition,
    in_cluster,
    namespace,
    request_of,
    review,
    store_of,
    webhook,
    widget,
)
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, hook, label, patch
from tests.waiting import NET


def test_all_objects_but_configuration_are_sent() -> None:
    objects = [
        widget("plain"),
        in_cluster("ws1", "v1", "ConfigMap", "inside"),
        configuration("ws1", "mutating", webhook()),
        definition("", "widgets.example.org", "v1"),
    ]
    found = [*select_objects([Document(one, "m.yaml", 1) for one in objects])]
    assert [(one.document["metadata"]["name"], one.cluster) for one in found] == [("plain", ""), ("inside", "ws1")]


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Served = tuple[Cluster, tuple[str, ...]]


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a plain cluster has it."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "annotations"}
    return {**document, "metadata": metadata}


def list_paths(held: Cluster, part: str) -> list[str]:
    return [path for _, path in held.requests if part in path]


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ({"resources": ["widgets/status"]}, []),
        ({"resources": ["widgets/*"]}, ["/apis/example.org/v1/widgets"]),
        ({"apiVersions": ["*"]}, ["/apis/example.org/v1/widgets"]),
        ({"apiGroups": ["*"]}, []),
        ({"resources": ["*"]}, []),
    ],
)
def test_only_resources_that_rules_name_are_listed(
    cluster: Served, write_yaml: WriteYAML, rule: dict[str, Any], path: list[str]
) -> None:
    held, options = cluster
    held.lists = {"/apis/example.org/v1/widgets": [widget("a")]}
    made = plain(configuration("", "validating", webhook("a.example.org", rules=[{**WIDGETS, **rule}])))
    result = invoke(["webhook", "test", "-f", write_yaml("hooks.yaml", made), *options])
    assert list_paths(held, "/widgets") == path
    assert ("no rule names a resource: give --resource PLURAL.GROUP" in result.stderr) is (path == [])
    assert ("name further ones by --resource" in result.stderr) is (
        "*" in (*rule.get("resources", ()), *rule.get("apiGroups", ()))
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("widgets.v2.example.org", "/apis/example.org/v2/widgets"),
        ("widgets.example.org", "/apis/example.org/v1/widgets"),
        ("configmaps", "/api/v1/configmaps"),
        ("configmaps.v1", "/api/v1/configmaps"),
        ("deployments.apps", "/apis/apps/v1/deployments"),
    ],
)
def test_a_resource_is_named_with_or_without_its_version(
    cluster: Served, write_yaml: WriteYAML, name: str, path: str
) -> None:
    held, options = cluster
    held.lists = {CRDS: [plain(definition("", "widgets.example.org", "v1", "v2"))], path: [plain(widget("a"))]}
    hooks = write_yaml("hooks.yaml", plain(configuration("", "validating", webhook())))
    assert invoke(["webhook", "test", "-f", hooks, *options, "--resource", name]).exit_code != 2
    assert list_paths(held, path.rpartition("/")[2]) == [path]


def test_a_resource_says_where_the_object_is_sent_to(write_yaml: WriteYAML) -> None:
    rule = {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}}
    arguments = (
        "--request",
        write_yaml("scale.yaml", scale),
        "-f",
        write_yaml("m/m.yaml", plain(configuration("", "validating", webhook(rules=[rule])))),
        "--cluster",
        "",
    )
    code, out, err = explain(*arguments)
    assert (code, out) == (2, "")
    assert "scale.yaml:1: Scale is sent to deployments.apps/scale or" in err
    assert err.endswith(": name one, as in --resource statefulsets.apps/scale\n")
    code, out, err = explain(*arguments, "--resource", "deployments/scale")
    assert (code, err, out.splitlines()[0]) == (
        0,
        "",
        "UPDATE of deployments.apps/scale, Scale default/a, in the cluster",
    )
    assert "  call   hooks/w.example.org/0" in out


async def try_all(front: Front, documents: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Trial]:
    dispatcher = front.dispatcher(store_of(*documents))
    deadline = Deadline(time.monotonic() + NET)
    sent = request_of(request)
    planned = InputRequest(sent, sent, "", InputDocument(request, "f:1", ""))
    return {str(one.members["webhook"]): one async for one in try_webhooks(dispatcher, planned, deadline)}


async def test_each_webhook_gets_the_object_and_none_hides_another(front: Front, server: Webhooks) -> None:
    server.answers = {
        "/deny": deny("too large"),
        "/label": label("a"),
        "/same": patch({"op": "test", "path": "/kind", "value": "Widget"}),
        "/warn": lambda _: {"allowed": True, "warnings": ["old"]},
        "/bad": patch({"op": "remove", "path": "/no"}),
    }
    mutating = configuration(
        "", "mutating",
        hook(server, "/deny", "deny.example.org"), hook(server, "/label", "label.example.org"),
        hook(server, "/same", "same.example.org"), hook(server, "/bad", "bad.example.org", failurePolicy="Ignore"),
        hook(server, "/x", "effects.example.org", sideEffects="Some"),
    )  # fmt: skip
    never = [{"name": "never", "expression": "false"}]
    wrong = [{"name": "wrong", "expression": "object.no.such == 1"}]
    validating = configuration(
        "", "validating",
        hook(server, "/warn", "warn.example.org"), hook(server, "/gone", "gone.example.org", failurePolicy="Ignore"),
        hook(server, "/warn", "never.example.org", matchConditions=never),
        hook(server, "/warn", "wrong.example.org", matchConditions=wrong),
    )  # fmt: skip
    found = await try_all(front, [mutating, validating, namespace("")], review(widget(), dryRun=True))
    assert {name: one.outcome for name, one in found.items()} == {
        "deny.example.org": "refused", "label.example.org": "changed", "same.example.org": "allowed",
        "bad.example.org": "failed", "effects.example.org": "failed", "warn.example.org": "allowed",
        "gone.example.org": "failed", "never.example.org": "not sent", "wrong.example.org": "failed",
    }  # fmt: skip
    assert found["deny.example.org"].message.endswith("denied the request: too large")
    assert found["label.example.org"].patch == ({"op": "add", "path": "/metadata/labels", "value": {"a": "true"}},)
    assert found["warn.example.org"].warnings == ("old",)
    assert "no such key" in found["wrong.example.org"].message
    assert "does not support dry run" in found["effects.example.org"].message
    assert all("labels" not in call.object["metadata"] for call in server.calls)


async def test_a_patch_that_the_apiserver_refuses_is_a_failure(front: Front, server: Webhooks) -> None:
    server.answers = {"/p": patch({"op": "add", "path": "/data", "value": {"a": 1}})}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    request = review(
        document, dryRun=True, kind={"group": "", "version": "v1", "kind": "ConfigMap"},
        resource={"group": "", "version": "v1", "resource": "configmaps"},
    )  # fmt: skip
    found = await try_all(
        front, [configuration("", "mutating", hook(server, "/p", rules=[rule])), namespace("")], request
    )
    text = "after its patch, the apiserver refuses the object: data.a: must be a string, not the number 1: quote it"
    assert [(one.outcome, one.message) for one in found.values()] == [("failed", text)]


async def test_a_patch_of_a_deletion_is_a_failure(front: Front, server: Webhooks) -> None:
    server.answers = {"/p": label("a")}
    documents = [configuration("", "mutating", hook(server, "/p")), namespace("")]
    found = await try_all(front, documents, review(None, old=widget(), operation="DELETE", dryRun=True))
    (one,) = found.values()
    assert (one.outcome, "attempted to modify the object" in one.message) == ("failed", True)


async def test_the_patch_of_a_secret_is_redacted(front: Front, server: Webhooks) -> None:
    server.answers = {"/p": patch({"op": "add", "path": "/data", "value": {"token": "c2VjcmV0"}}), "/v": allow}
    rule = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"]}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    resource = {"group": "", "version": "v1", "resource": "secrets"}
    request = review(secret, kind={"group": "", "version": "v1", "kind": "Secret"}, resource=resource, dryRun=True)
    found = await try_all(
        front, [configuration("", "mutating", hook(server, "/p", rules=rule)), namespace("")], request
    )
    shown = found["w.example.org"]
    assert shown.make_row()["patch"] == [{"op": "add", "path": "/data", "value": REDACTED}]
    assert [*shown.describe()] == ["/data", f"  + {REDACTED}"]
