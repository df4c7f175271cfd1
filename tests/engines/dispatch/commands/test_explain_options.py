import json

import pytest

from tests.cli.conftest import WriteYAML
from tests.cli.explaining import explain, explain_as_json, provide_webhooks
from tests.engines.dispatch.builders import WIDGETS, configuration, in_cluster, review, webhook, widget

PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*"], "operations": ["*"]}


DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "resources": ["deployments", "deployments/*"],
    "operations": ["*"],
}


def test_options_override_the_operation_and_user_of_a_review(write_yaml: WriteYAML) -> None:
    condition = {"name": "who", "expression": "request.userInfo.username == 'bob' && request.operation == 'UPDATE'"}
    manifests = write_yaml("m/m.yaml", *provide_webhooks(webhook(matchConditions=[condition])))
    arguments = ("--request", "-", "--cluster", "c", "-f", manifests)
    made = json.dumps(review(widget()))
    plain = explain_as_json(*arguments, stdin=made)
    other = explain_as_json(*arguments, "--operation", "UPDATE", "--user", "bob", stdin=made)
    assert (plain["operation"], plain["validating"][0]["decision"]) == ("CREATE", "skip")
    assert (other["operation"], other["validating"][0]["decision"]) == ("UPDATE", "call")


def test_options_override_every_part_of_a_review(write_yaml: WriteYAML) -> None:
    expression = "request.dryRun && request.options.kind == 'UpdateOptions' && oldObject.spec.size == 1"
    hook = webhook(matchConditions=[{"name": "a", "expression": expression}], rules=[{**WIDGETS, "resources": ["*/*"]}])
    arguments = ("--request", "-", "--cluster", "c", "-f", write_yaml("m/m.yaml", *provide_webhooks(hook)))
    options = (
        "--dry-run",
        "--operation",
        "UPDATE",
        "--old",
        write_yaml("o.yaml", widget(size=1)),
    )
    found = explain_as_json(*arguments, *options, stdin=json.dumps(review(widget(size=2))))
    assert (found["resource"], found["operation"]) == ("widgets.example.org", "UPDATE")
    assert found["validating"][0]["decision"] == "call", found["validating"][0]["reason"]


@pytest.mark.parametrize(
    ("operation", "expression"),
    [
        ("CREATE", "object.spec.size == 1 && oldObject == null"),
        ("UPDATE", "object.spec.size == 1 && oldObject.spec.size == 1"),
        ("DELETE", "object == null && oldObject.spec.size == 1"),
    ],
)
def test_the_operation_decides_whether_a_manifest_is_object_or_old_object(
    write_yaml: WriteYAML, operation: str, expression: str
) -> None:
    manifests = write_yaml(
        "m/m.yaml", *provide_webhooks(webhook(matchConditions=[{"name": "o", "expression": expression}]))
    )
    arguments = ("-f", manifests, "--cluster", "c", "--request", write_yaml("w.yaml", widget(size=1)))
    assert explain_as_json(*arguments, "--operation", operation)["validating"][0]["decision"] == "call"


def test_match_conditions_see_the_user_and_the_dry_run(write_yaml: WriteYAML) -> None:
    condition = {"name": "who", "expression": "request.userInfo.groups.exists(g, g == 'devs') && request.dryRun"}
    manifests = write_yaml("m/m.yaml", *provide_webhooks(webhook(matchConditions=[condition])))
    arguments = ("-f", manifests, "--cluster", "c", "--request", write_yaml("w.yaml", widget()), "--user", "bob")
    assert explain_as_json(*arguments, "--group", "ops", "--dry-run")["validating"][0]["decision"] == "skip"
    assert (
        explain_as_json(*arguments, "--group", "ops", "--group", "devs", "--dry-run")["validating"][0]["decision"]
        == "call"
    )


def test_the_annotation_of_an_object_names_its_cluster(write_yaml: WriteYAML) -> None:
    manifests = write_yaml("m/m.yaml", *provide_webhooks(webhook()))
    file = write_yaml("w.yaml", in_cluster("c", "example.org/v1", "Widget", "b"))
    assert explain_as_json("--request", file, "-f", manifests)["cluster"] == "c"


def test_a_missing_cluster_exits_2_and_names_the_remedies(write_yaml: WriteYAML) -> None:
    file = write_yaml("w.yaml", widget())
    code, out, err = explain("--request", file, "-f", write_yaml("m/m.yaml", *provide_webhooks()))
    assert (code, out) == (2, "")
    assert err == (
        f"fleethook: {file}:1: the logical cluster is unknown: add the annotation kcp.io/cluster, or give --cluster NAME "
        "('' for the objects without this annotation)\n"
    )


def test_files_without_logical_clusters_are_those_of_a_plain_cluster(write_yaml: WriteYAML) -> None:
    plain = configuration("", "validating", webhook(rules=[DEPLOYMENTS]))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "shop"}}
    found = explain_as_json("--request", write_yaml("d.yaml", deployment), "-f", write_yaml("m/m.yaml", plain))
    assert (found["cluster"], found["owner"]["case"]) == ("", "local")


def test_a_subresource_is_sent_as_its_own_kind(write_yaml: WriteYAML) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}}}
    manifests = write_yaml(
        "m/m.yaml",
        configuration("", "validating", webhook(rules=[DEPLOYMENTS])),
        configuration("", "mutating", webhook(rules=[PODS])),
    )
    arguments = (
        "--request",
        write_yaml("d.yaml", deployment),
        "--cluster",
        "",
        "-f",
        manifests,
        "--operation",
        "UPDATE",
    )
    scale = explain_as_json(*arguments, "--resource", "/scale")
    assert scale["resource"] == "deployments.apps/scale"
    assert scale["validating"][0]["sentAs"] == "autoscaling/v1, Kind=Scale"
    status = explain_as_json(*arguments, "--resource", "/status")
    assert status["validating"][0]["sentAs"] == "apps/v1, Kind=Deployment"


def test_connect_sends_its_options(write_yaml: WriteYAML) -> None:
    condition = {
        "name": "c",
        "expression": "object.kind == 'PodExecOptions' && !has(object.metadata) && request.namespace == 'default'",
    }
    manifests = write_yaml(
        "m/m.yaml", configuration("", "validating", webhook(rules=[PODS], matchConditions=[condition]))
    )
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    arguments = ("--request", write_yaml("p.yaml", pod), "--cluster", "", "-f", manifests)
    found = explain_as_json(*arguments, "--operation", "CONNECT", "--resource", "/exec")
    assert found["validating"][0]["decision"] == "call", found["validating"][0]["reason"]


def test_a_namespace_is_in_itself_and_a_node_in_none(write_yaml: WriteYAML) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    conditions = [
        {
            "name": "n",
            "expression": "request.kind.kind == 'Namespace' ? request.namespace == 'a' : !has(request.namespace)",
        }
    ]
    manifests = write_yaml(
        "m/m.yaml", configuration("", "validating", webhook(rules=[everything], matchConditions=conditions))
    )
    objects = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}} for kind in ("Namespace", "Node", "Pod")]
    found = [
        explain_as_json("--request", "-", "--cluster", "", "-f", manifests, stdin=json.dumps(one))["validating"][0][
            "decision"
        ]
        for one in objects
    ]
    assert found == ["call", "call", "skip"]
