"""The objects and reviews that ``fleethook explain`` reads."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.engines.dispatch.commands.explain_inputs import read_inputs, read_old, select_objects
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.explaining import explain
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import (
    WIDGETS,
    configuration,
    definition,
    in_cluster,
    webhook,
    widget,
)


def test_all_objects_but_configuration_are_sent() -> None:
    objects = [
        widget("plain"),
        in_cluster("ws1", "v1", "ConfigMap", "inside"),
        configuration("ws1", "mutating", webhook()),
        definition("", "widgets.example.org", "v1"),
    ]
    found = [*select_objects([Document(one, "m.yaml", 1) for one in objects])]
    assert [(one.document["metadata"]["name"], one.cluster) for one in found] == [("plain", ""), ("inside", "ws1")]


def test_an_object_keeps_its_place_and_its_own_cluster(write_yaml: WriteYAML) -> None:
    path = Path(write_yaml("w.yaml", widget("a"), in_cluster("ws1", "v1", "ConfigMap", "b")))
    first, second = read_inputs(path, None)
    assert (first.place, first.cluster) == (f"{path}:1", None)
    assert int(second.place.removeprefix(f"{path}:")) > 1
    assert second.cluster == "ws1"
    assert [one.cluster for one in read_inputs(path, "ws9")] == ["ws9", "ws9"]


def test_an_object_without_a_name_is_an_input(write_yaml: WriteYAML) -> None:
    (found,) = read_inputs(Path(write_yaml("w.yaml", {"apiVersion": "v1", "kind": "Pod", "metadata": {}})), None)
    assert found.document["kind"] == "Pod"


def test_the_old_object_is_the_only_one_of_its_file(write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_old(Path(write_yaml("one.yaml", widget("a"))))["metadata"]["name"] == "a"
    for path, count in ((write_yaml("none.yaml"), 0), (write_yaml("two.yaml", widget("a"), widget("b")), 2)):
        with pytest.raises(SystemExit):
            read_old(Path(path))
        assert f"{path} holds {count} objects, expected one" in capsys.readouterr().err


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
