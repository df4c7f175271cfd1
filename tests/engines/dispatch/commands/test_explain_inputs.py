"""The objects and reviews that ``fleethook explain`` reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.engines.dispatch.commands.explain_inputs import read_inputs, read_old, select_all
from tests.cli.conftest import WriteYAML
from tests.cli.explaining import explain
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    in_cluster,
    namespace,
    review,
    webhook,
    widget,
)


@pytest.mark.parametrize(("cluster", "names"), [(None, ["plain", "inside"]), ("", ["plain"]), ("ws1", ["inside"])])
def test_all_objects_but_configuration_are_selected_by_cluster(cluster: str | None, names: list[str]) -> None:
    objects = [
        widget("plain"),
        in_cluster("ws1", "v1", "ConfigMap", "inside"),
        configuration("ws1", "mutating", webhook()),
        definition("", "widgets.example.org", "v1"),
    ]
    stored = [Document(one, "m.yaml", 1) for one in objects]
    assert [one.document["metadata"]["name"] for one in select_all(stored, cluster)] == names


def test_an_object_keeps_its_place_and_its_own_cluster(write_yaml: WriteYAML) -> None:
    path = Path(write_yaml("w.yaml", widget("a"), in_cluster("ws1", "v1", "ConfigMap", "b")))
    first, second = read_inputs(path, None)
    assert (first.place, first.cluster) == (f"{path}:1", None)
    assert int(second.place.removeprefix(f"{path}:")) > 1
    assert second.cluster == "ws1"
    assert [one.cluster for one in read_inputs(path, "ws9")] == ["ws9", "ws9"]


def test_the_elements_of_a_list_are_inputs(write_yaml: WriteYAML) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [widget("a"), review(widget("b"))]}
    found = [one.document["kind"] for one in read_inputs(Path(write_yaml("l.yaml", items)), None)]
    assert found == ["Widget", "AdmissionReview"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("text", "apiVersion and kind are required"),
        ({"kind": "Pod", "metadata": {}}, "apiVersion and kind are required"),
        ({"apiVersion": "v1", "kind": "", "metadata": {}}, "apiVersion and kind are required"),
        ({"apiVersion": 1, "kind": "Pod", "metadata": {}}, "apiVersion and kind are required"),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata is required"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": ["name"]}, "metadata is required"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}, "name and namespace must be text"),
        ({"apiVersion": "v1", "kind": "List", "items": [None]}, "apiVersion and kind are required"),
    ],
)
def test_other_documents_end_the_command_with_their_place(
    write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str], document: Any, problem: str
) -> None:
    path = Path(write_yaml("w.yaml", document))
    with pytest.raises(SystemExit) as caught:
        list(read_inputs(path, None))
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"fleethook: {path}:1: {problem}\n"


def test_an_object_without_a_name_is_an_input(write_yaml: WriteYAML) -> None:
    (found,) = read_inputs(Path(write_yaml("w.yaml", {"apiVersion": "v1", "kind": "Pod", "metadata": {}})), None)
    assert found.document["kind"] == "Pod"


def test_the_old_object_is_the_only_one_of_its_file(write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_old(Path(write_yaml("one.yaml", widget("a"))))["metadata"]["name"] == "a"
    for path, count in ((write_yaml("none.yaml"), 0), (write_yaml("two.yaml", widget("a"), widget("b")), 2)):
        with pytest.raises(SystemExit):
            read_old(Path(path))
        assert f"{path} holds {count} objects, expected one" in capsys.readouterr().err


HOOKS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KCP = "/clusters/*/apis/apis.kcp.io/v1alpha2"
Served = tuple[Cluster, tuple[str, ...]]


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a plain cluster has it."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "annotations"}
    return {**document, "metadata": metadata}


def listed_in_cluster(cluster: str, document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "annotations": {"kcp.io/cluster": cluster}}}


def hooks(*names: str, **members: Any) -> dict[str, Any]:
    return configuration("", "validating", *(webhook(name, **members) for name in names))


def list_paths(held: Cluster, part: str) -> list[str]:
    return [path for _, path in held.requests if part in path]


def test_objects_of_the_resources_in_changed_rules_are_listed(cluster: Served, write_yaml: WriteYAML) -> None:
    held, options = cluster
    held.lists = {
        CRDS: [plain(definition("", "widgets.example.org", "v2", "v1"))],
        f"{HOOKS}/validatingwebhookconfigurations": [plain(hooks("old.example.org"))],
        "/apis/example.org/v1/widgets": [widget("a"), widget("b", size=9)],
    }
    sized = {"expression": "object.spec.size > 5", "name": "sized"}
    change = write_yaml("change.yaml", plain(hooks("new.example.org", matchConditions=[sized])))
    code, out, err = explain("--all", *options, "--change", change, "-o", "json")
    assert (code, err) == (1, "2 of 2 requests are sent to other webhooks\n")
    rows = json.loads(out)
    assert [row["before"]["called"] for row in rows] == [["hooks/old.example.org/0"]] * 2
    assert rows[0]["after"]["refused"].startswith("hooks/new.example.org/0: matchConditions: ")
    assert rows[1]["after"]["called"] == ["hooks/new.example.org/0"]
    _, out, _ = explain("--all", *options, "--change", change)
    assert "-hooks/old.example.org/0, +hooks/new.example.org/0" in out.splitlines()[2]


def test_requests_with_the_same_webhooks_are_not_listed(cluster: Served, write_yaml: WriteYAML) -> None:
    held, options = cluster
    held.lists = {
        f"{HOOKS}/validatingwebhookconfigurations": [plain(hooks("a.example.org"))],
        "/apis/example.org/v1/widgets": [widget("a")],
    }
    change = write_yaml("change.yaml", plain(hooks("a.example.org", timeoutSeconds=3)))
    code, out, err = explain("--all", *options, "--change", change)
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "note: no CRD or APIBinding defines Widget; assuming resource widgets",
        "0 of 1 requests are sent to other webhooks",
    ]


def test_consumers_in_each_logical_cluster_are_listed(cluster: Served, write_yaml: WriteYAML) -> None:
    held, options = cluster
    held.lists = {
        f"{KCP}/apibindings": [binding("c", "p", "widgets.example.org"), binding("d", "q", "widgets.example.org")],
        f"{KCP}/apiexports": [export("p", "widgets.example.org"), export("q", "widgets.example.org")],
        "/clusters/*/api/v1/namespaces": [namespace("c"), namespace("d"), namespace("p")],
        "/clusters/c/apis/example.org/v1/widgets": [listed_in_cluster("c", widget("a"))],
        "/clusters/d/apis/example.org/v1/widgets": [listed_in_cluster("d", widget("a"))],
    }
    change = write_yaml("change.yaml", configuration("p", "validating", webhook("new.example.org")))
    code, out, err = explain("--all", "--kcp", *options, "--change", change)
    assert (code, err) == (0, "1 of 2 requests are sent to other webhooks\n")
    assert out.splitlines()[1:] == ["c        Widget default/a  p      +hooks/new.example.org/0"]
    assert list_paths(held, "widgets") == [f"/clusters/{one}/apis/example.org/v1/widgets" for one in "cd"]
    held.requests.clear()
    explain("--all", "--kcp", *options, "--change", change, "--cluster", "c")
    assert list_paths(held, "widgets") == ["/clusters/c/apis/example.org/v1/widgets"]


def test_a_removed_configuration_names_the_resources_too(cluster: Served) -> None:
    held, options = cluster
    held.lists = {
        f"{HOOKS}/validatingwebhookconfigurations": [plain(hooks("a.example.org"))],
        "/api/v1/namespaces": [namespace("")],
        "/apis/example.org/v1/widgets": [widget("a")],
    }
    _, out, _ = explain("--all", *options, "--without", "ValidatingWebhookConfiguration/hooks")
    assert out.splitlines()[1].endswith("-hooks/a.example.org/0")


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
def test_only_named_resources_are_listed(
    cluster: Served, write_yaml: WriteYAML, rule: dict[str, Any], path: list[str]
) -> None:
    held, options = cluster
    held.lists = {"/apis/example.org/v1/widgets": [widget("a")]}
    change = write_yaml("change.yaml", plain(hooks("a.example.org", rules=[{**WIDGETS, **rule}])))
    code, _, err = explain("--all", *options, "--change", change)
    assert list_paths(held, "/widgets") == path
    assert (code == 2) is (path == [])
    assert ("name further ones by --resource" in err) is (
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
def test_a_resource_is_named_with_or_without_its_version(cluster: Served, name: str, path: str) -> None:
    held, options = cluster
    held.lists = {CRDS: [plain(definition("", "widgets.example.org", "v1", "v2"))], path: [plain(widget("a"))]}
    code, out, _ = explain("--all", *options, "--resource", name)
    assert code == 0
    assert "a" in out.splitlines()[1]
    assert list_paths(held, path.rpartition("/")[2]) == [path]


def test_a_cluster_without_named_resources_exits_2(cluster: Served) -> None:
    _, options = cluster
    code, out, err = explain("--all", *options)
    assert (code, out) == (2, "")
    assert "--all needs the resources to explain: give --resource PLURAL.GROUP, or --change" in err


def test_with_all_resources_need_a_cluster(write_yaml: WriteYAML) -> None:
    path = write_yaml("a.yaml", widget())
    code, _, err = explain("--all", "-f", path, "--resource", "widgets.example.org")
    assert code == 2
    assert "--resource needs a cluster with --all" in err


def test_without_all_one_resource_says_where_the_object_is_sent_to(write_yaml: WriteYAML) -> None:
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
    code, out, err = explain(*arguments, "--resource", "deployments/scale")
    assert (code, err, out.splitlines()[0]) == (
        0,
        "",
        "UPDATE of deployments.apps/scale, Scale default/a, in the cluster",
    )
    assert "  call   hooks/w.example.org/0" in out
    code, _, err = explain(*arguments, "--resource", "deployments/scale", "--resource", "statefulsets/scale")
    assert (code, err) == (2, "fleethook: --resource may be repeated only with --all\n")
