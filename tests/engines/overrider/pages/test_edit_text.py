import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.store import ObjectKey
from fleethook.cluster.store.applied_manifest import LAST_APPLIED
from fleethook.engines.overrider.pages.edit_text import (
    MAX_TEXT_BYTES,
    EditError,
    format_command,
    format_overrider,
    locate_edit,
    make_overrider,
    normalize,
    parse_overrider,
    show_source,
)
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from tests.builders import API, NEW_IMAGE, overrider, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import make_store

HOSTILE = [
    "kind: X\n",
    "no end of line",
    "EOF\nEOF2\nEOF\n",
    "'EOF'\n\"$(touch pwned)\" `id` $HOME \\ ! ~\n",
    "tab\there\n",
    "a\u202eb\u2066\n",
    "\x1b[31mred\x07\n",
    "ü\u0085\u2028\n",
    "--- # <script>\n...\n",
    "\n\n",
    "\u0000",
]


def run_command(command: str, directory: Path) -> tuple[str, str]:
    """Return the arguments and the input that a kubectl gets from a shell."""
    shell = shutil.which("sh")
    assert shell is not None
    kubectl = directory / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$@" > arguments\ncat > input\n')
    kubectl.chmod(0o755)
    subprocess.run([shell, "-c", command], cwd=directory, check=True, env={"PATH": f"{directory}:/usr/bin:/bin"})
    return (directory / "arguments").read_text(), (directory / "input").read_bytes().decode()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_the_command_gives_kubectl_exactly_the_text(text: str, tmp_path: Path) -> None:
    arguments, given = run_command(format_command(text), tmp_path)
    assert arguments == "apply -f -\n"
    assert given == (text if text.endswith("\n") else f"{text}\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["arguments", "input", "kubectl"]


def test_a_command_has_no_character_that_a_terminal_interprets() -> None:
    for text in HOSTILE:
        assert format_command(text).replace("\n", "").isprintable()


def test_the_command_names_the_namespace(tmp_path: Path) -> None:
    arguments, _ = run_command(format_command("a: 1\n", namespace="shop; id"), tmp_path)
    assert arguments == "apply --namespace shop; id -f -\n"


def test_the_text_of_an_overrider_has_no_member_of_the_server() -> None:
    stored = overrider(
        uid="1", resourceVersion="2", generation=3, creationTimestamp="now", managedFields=[{}],
        annotations={LAST_APPLIED: "{}"},
    )  # fmt: skip
    stored["status"] = {"conditions": []}
    assert yaml.safe_load(format_overrider(stored)) == overrider()


def test_other_annotations_stay_in_the_text() -> None:
    stored = overrider(annotations={LAST_APPLIED: "{}", "mine": "yes"})
    assert yaml.safe_load(format_overrider(stored))["metadata"]["annotations"] == {"mine": "yes"}


def test_a_form_sends_other_line_ends() -> None:
    assert normalize("a\r\nb\rc\n") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "the text has no object"),
        ("a: 1\nb: }", 2, "expected"),
        ("kind: X\nkind: Z\n", 2, "duplicate key"),
        ("kind: X\n", 1, "apiVersion and kind are required"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", 1, "takes a YurtAppOverrider, not a Secret"),
        (f"{format_overrider(NEW_IMAGE)}---\n{format_overrider(NEW_IMAGE)}", 18, "the editor takes one object"),
        ("x" * (MAX_TEXT_BYTES + 1), 1, "longer than 1 MiB"),
        ("\ud800", 1, "surrogate pair"),
    ],
)
def test_other_texts_are_refused_with_their_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(EditError) as caught:
        parse_overrider(text)
    assert reason in str(caught.value)
    assert caught.value.line == line


def test_a_misspelled_version_is_left_to_the_findings() -> None:
    text = format_overrider(NEW_IMAGE).replace("v1alpha1", "v1alpha2", 1)
    assert parse_overrider(text).object["apiVersion"].endswith("v1alpha2")


OPENED = ObjectKey("root:a", YURT_APP_OVERRIDER, "shop", "demo1")


def test_a_text_without_namespace_and_cluster_gets_those_of_the_opened_overrider() -> None:
    document = overrider()
    del document["metadata"]["namespace"]
    edited = locate_edit(parse_overrider(format_overrider(document)), make_store(), opened=OPENED)
    assert (edited.key, edited.former) == (OPENED, None)


def test_the_namespace_of_a_text_counts() -> None:
    edited = locate_edit(
        parse_overrider(format_overrider(NEW_IMAGE)), make_store(NEW_IMAGE), opened=OPENED._replace(cluster="")
    )
    assert edited.key.namespace == "default"
    assert edited.former == NEW_IMAGE


def test_no_namespace_and_the_default_namespace_are_the_same_in_manifests() -> None:
    stored = overrider()
    del stored["metadata"]["namespace"]
    edited = locate_edit(
        parse_overrider(format_overrider(overrider())), make_store(yurt_app_set(), stored), opened=None
    )
    assert edited.former == stored


def test_the_edit_is_applied_as_kubectl_does() -> None:
    stored = overrider(uid="1", resourceVersion="7")
    stored["status"] = {"conditions": []}
    edited = locate_edit(parse_overrider(format_overrider(NEW_IMAGE)), make_store(stored), opened=None)
    assert edited.document.object == {**NEW_IMAGE, "metadata": stored["metadata"], "status": stored["status"]}


def test_the_text_of_a_file_keeps_its_comments() -> None:
    text = f"# the reason\n{format_overrider(NEW_IMAGE)}"
    (document,) = read_documents(text, source="a.yaml")
    assert show_source(document) == text


@pytest.mark.parametrize("other", ["---\na: 1\n", "---\n- x\n"])
def test_an_overrider_among_others_in_a_file_is_shown_alone(other: str) -> None:
    text = f"# the reason\n{format_overrider(NEW_IMAGE)}"
    (document,) = read_documents(text, source="a.yaml")
    assert show_source(document._replace(text=text + other)) == format_overrider(NEW_IMAGE)


def test_an_overrider_in_a_list_is_shown_alone() -> None:
    (document,) = read_documents(
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [NEW_IMAGE]}), source="a.yaml"
    )
    assert yaml.safe_load(show_source(document)) == NEW_IMAGE


def test_a_new_overrider_names_its_subject() -> None:
    made = make_overrider(OPENED, "YurtAppSet")
    edited = locate_edit(parse_overrider(format_overrider(made)), make_store(), opened=None)
    assert edited.key == OPENED
    assert made["subject"] == {"apiVersion": API, "kind": "YurtAppSet", "name": "demo1"}
