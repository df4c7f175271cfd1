import json

from tests.cli.conftest import WriteYAML
from tests.cli.explaining import explain, explain_as_json, provide_webhooks
from tests.engines.dispatch.builders import WIDGETS, configuration, review, webhook, widget

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
