"""The objects and reviews that ``fleethook explain`` reads."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.engines.dispatch.commands.explain_inputs import read_inputs, read_old, select_all
from tests.cli.conftest import WriteYAML
from tests.engines.dispatch.builders import configuration, definition, in_cluster, review, webhook, widget


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
