"""The documents of a file: objects, documents to skip, and errors, each with its line."""

import json
import os
from pathlib import Path

import pytest

from fleethook.cluster.manifests.manifest_files import (
    check_objects,
    describe_skipped,
    is_excluded,
    list_directory,
    read_documents,
    read_file,
    read_manifest,
)
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError


def make_files(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("a: b\n")


def list_names(directory: Path, *, exclude: tuple[str, ...] = (), testdata: bool = False) -> list[str]:
    found = list_directory(directory, exclude=exclude, testdata=testdata)
    return [str(one.relative_to(directory)) if isinstance(one, Path) else str(one) for one in found]


def test_files_of_kubectl_are_listed_in_order_without_hidden_ones_and_testdata(tmp_path: Path) -> None:
    make_files(
        tmp_path,
        "b.json",
        "b.yaml",
        "a/c.yml",
        "a.md",
        "a.jsonl",
        "a.JSON",
        ".git/x.yaml",
        ".hidden.yaml",
        "testdata/t.yaml",
        "..2026/d.yaml",
    )
    assert list_names(tmp_path) == ["a/c.yml", "b.json", "b.yaml"]
    assert list_names(tmp_path, testdata=True) == ["a/c.yml", "b.json", "b.yaml", "testdata/t.yaml"]


def test_links_to_files_are_read_and_links_to_directories_are_not(tmp_path: Path) -> None:
    make_files(tmp_path, "..data/a.yaml")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "nowhere.yaml").symlink_to("missing")
    assert list_names(tmp_path) == ["a.yaml", "nowhere.yaml"]
    with pytest.raises(ManifestError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        read_file(tmp_path / "nowhere.yaml")


def test_a_pipe_in_a_directory_is_an_error_instead_of_a_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert list_names(tmp_path) == [f"{tmp_path}/pipe.yaml: is not a regular file"]


def test_an_unreadable_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path, "a.yaml", "sub/b.yaml")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert list_names(tmp_path) == ["a.yaml", f"{tmp_path}/sub: cannot be read: Permission denied"]


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("values.yaml", ["a.yaml", "charts/x/t.yaml"]), ("charts", ["a.yaml", "values.yaml"]), ("charts/", ["a.yaml", "values.yaml"]),
        ("charts/*", ["a.yaml", "values.yaml"]), ("*/t.yaml", ["a.yaml", "charts/x/values.yaml", "values.yaml"]),
        ("**/values.yaml", ["a.yaml", "charts/x/t.yaml"]), ("./values.yaml", ["a.yaml", "charts/x/t.yaml"]),
        ("charts/x/values.yaml", ["a.yaml", "charts/x/t.yaml", "values.yaml"]), ("*.yaml", []),
        ("VALUES.yaml", ["a.yaml", "charts/x/t.yaml", "charts/x/values.yaml", "values.yaml"]),
    ],
)  # fmt: skip
def test_patterns_leave_out_names_and_paths(tmp_path: Path, pattern: str, kept: list[str]) -> None:
    make_files(tmp_path, "a.yaml", "values.yaml", "charts/x/values.yaml", "charts/x/t.yaml")
    assert list_names(tmp_path, exclude=(pattern,)) == kept


def test_patterns_match_paths_as_given_too() -> None:
    assert is_excluded(Path("deploy/charts/a.yaml"), ["deploy/charts/*"], below=Path("deploy"))
    assert is_excluded(Path("deploy/values.yaml"), ["values.yaml"])
    assert not is_excluded(Path("deploy/values.yaml"), ["deploy/other/*", "value.yaml"])


OBJECT = "apiVersion: v1\nkind: A\nmetadata: {name: %s}\n"
A, B = OBJECT % "a", OBJECT % "b"
JSON_A = '{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}'
JSON_B = JSON_A.replace('"a"', '"b"')


def read(content: str | bytes) -> tuple[list[str], list[int], list[str]]:
    """Return the names of the objects, the lines of skipped documents, and the errors."""
    found = read_manifest(content.encode() if isinstance(content, str) else content, source="f")
    names = [one.object["metadata"]["name"] for one in found.documents]
    return names, [one.line for one in found.skipped], [str(one) for one in found.errors]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("resources: [a.yaml]", "has neither apiVersion nor kind"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]", "is a file of a tool"),
        ("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration", "is a file of a tool"),
        ("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nname: x", "is a file of a tool"),
        ("apiVersion: v1\nkind: Config\nclusters: []", "is a file of a tool"),
        ("apiVersion: skaffold/v4beta13\nkind: Config\nmetadata: {}", "is a file of a tool"),
        ("apiVersion: v2\nname: chart\nversion: 1.0.0", "is the Chart.yaml of a Helm chart"),
        ("apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {}", "is a request (AdmissionReview)"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}", "has generateName"),
        ("replicaCount: 1\nimage: {tag: v1}", "has neither apiVersion nor kind"),
        ("name: x\noperation: Retain\ndesiredObj: {apiVersion: v1, kind: A}\noutput: {}", "has neither"),
        ("# A title\n\nSome text of a README.", "is text, not a Kubernetes object"),
        ("- {op: replace, path: /spec, value: 1}", "is a list, not a Kubernetes object"),
        ("42", "is text, not a Kubernetes object"),
    ],
)  # fmt: skip
def test_documents_that_are_no_objects_are_skipped_beside_objects(text: str, reason: str) -> None:
    found = read_manifest(f"{A}---\n{text}\n---\n{B}".encode(), source="f")
    assert [one.object["metadata"]["name"] for one in found.documents] == ["a", "b"]
    assert ([one.line for one in found.skipped], found.errors) == ([text.startswith("# ") * 2 + 5], [])
    assert reason in str(found.skipped[0])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("kind: A\nmetadata: {name: x}", 5, "apiVersion and kind are required"),
        ("apiVersion: v1\nmetadata: {name: x}", 5, "apiVersion and kind are required"),
        ("apiVersion: v1\nkind: 5\nmetadata: {name: x}", 6, "kind must be text, not 5: quote it"),
        ("apiVersion: v1\nkind: A", 5, "A has no metadata.name"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: 5}", 7, "metadata.name of A must be text, not 5: quote it"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: x, labels: [x]}", 7, "metadata.labels of A x must be a mapping"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: x, namespace: n}", 7, "metadata.namespace of A x must be text, not false: quote it"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: null}", 5, "A has no metadata.name"),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: x\n  labels: {a.b/c: 1.10}", 9, "metadata.labels.a.b/c of A x must be text, not 1.1: quote it"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: x, annotations: {kcp.io/cluster: 007}}", 7, "metadata.annotations.kcp.io/cluster of A x must be text, not 7: quote it"),
        ("apiVersion: v1\nkind: A\nmetadata: {generateName: off}", 7, "metadata.generateName of A must be text, not false: quote it"),
        ("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {generateName: a}}]}", 5, "/items/0: A has no metadata.name"),
        ("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: c}}\n- 7", 9, "/items/1: a manifest must be an object"),
        ("apiVersion: v1\nkind: List\nitems: {}", 5, "/items: apiVersion and kind are required"),
        ("- {apiVersion: v1, kind: A, metadata: {name: x}}", 5, "kubectl reads no list of objects"),
        ("apiVersion: v1\nkind: A\nkind: B", 7, "duplicate key 'kind' (column 1)"),
        ("apiVersion: v1\n\tkind: A", 6, "found a tab character that violates indentation"),
        ("kind: [broken", 6, "did not find expected ',' or ']'"),
        ("key: {{ .Values.name }}", 5, "a key must be a scalar (column 7); the document looks like a Helm template"),
        ("key: a\x00b", 4, "control characters are not allowed"),
        ("a: &x [*y]", 5, "found undefined alias"),
    ],
)  # fmt: skip
def test_documents_that_should_be_objects_are_errors_and_the_others_are_read(text: str, line: int, reason: str) -> None:
    names, skipped, (error,) = read(f"{A}---\n{text}\n---\n{B}")
    assert ([one for one in names if one != "c"], skipped) == (["a", "b"], [])
    assert error.startswith(f"f:{line}: {reason}")


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: A\nmetadata: {name: x, namespace: }",
        "apiVersion: v1\nkind: A\nmetadata: {name: x, namespace: ~}",
        '{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "namespace": null}}',
    ],
)
def test_a_namespace_without_a_value_is_absent(text: str) -> None:
    assert read(text) == (["x"], [], [])


@pytest.mark.parametrize(
    "text", ["", "\n", "---\n---\n", "# only a comment\n", "null\n", "\ufeff", "--- # nothing\n...\n"]
)
def test_empty_documents_are_not_counted(text: str) -> None:
    assert read(text) == ([], [], [])


def test_another_encoding_is_an_error_with_its_line() -> None:
    error = "f:4: the byte 0xe9 is not valid UTF-8: save the file as UTF-8"
    assert read((A + "# caf\u00e9\n").encode("latin-1")) == ([], [], [error])


@pytest.mark.parametrize("text", [A, JSON_A])
def test_a_byte_order_mark_is_no_text(text: str) -> None:
    assert read(text.encode("utf-8-sig")) == (["a"], [], [])


@pytest.mark.parametrize(
    "text",
    [
        f"{JSON_A}\n{JSON_B}\n", f"{JSON_A}{JSON_B}", f"\n {JSON_A}\n\n\n{JSON_B}", f"{JSON_A}\nnull\n{JSON_B}",
        f"{JSON_A}\n---\n{JSON_B}", f"{JSON_A}\n---\n{B}", f"{A}---\n{JSON_B}\n",
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [json.loads(JSON_A), json.loads(JSON_B)]}),
    ],
)  # fmt: skip
def test_json_streams_are_read(text: str) -> None:
    assert read(text) == (["a", "b"], [], [])


def test_an_error_in_a_json_stream_keeps_the_values_before_it() -> None:
    assert read(f"{JSON_A}\n{JSON_B}\n{{broken") == (
        ["a", "b"], [], ["f:3: Expecting property name enclosed in double quotes: line 3 column 2 (char 111)"],
    )  # fmt: skip
    duplicate = '{"kind":"X",\n "kind":"Y"}'
    assert read(f"{JSON_A}\n{duplicate}\n{JSON_B}") == (["a"], [], ["f:2: duplicate key 'kind'"])


def test_escaped_surrogate_pairs_of_json_are_one_character() -> None:
    text = JSON_A.replace("{", '{"n": "\\ud83d\\ude00", ', 1)
    (document,) = read_manifest(text.encode(), source="f").documents
    assert document.object["n"] == "\U0001f600"
    assert FieldLines().line(document, "metadata") == 1


def test_fields_of_later_documents_have_their_lines_in_the_file() -> None:
    indented = json.dumps(json.loads(JSON_B), indent=1)
    for text in (f"{JSON_A}\n{indented}", f"{JSON_A}\n---\n{indented}"):
        second = read_manifest(text.encode(), source="f").documents[1]
        line = text.splitlines().index('  "name": "b"') + 1
        assert FieldLines().line(second, "metadata.name") == line


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("apiVersion: v1\nkind: List\nitems: null", []), ("apiVersion: v1\nkind: List", []),
        ("apiVersion: v1\nkind: List\nmetadata: {}\nitems: []", []),
        ("apiVersion: v1\nkind: AList\nitems: [{metadata: {name: x}}, {kind: B, apiVersion: v2, metadata: {name: q}}]", ["v1 A x", "v2 B q"]),
        ("apiVersion: v1\nkind: AllowList\nmetadata: {name: own}\nitems: [1]", ["v1 AllowList own"]),
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: BList, items: [{metadata: {name: z}}]}]", ["v1 B z"]),
    ],
)  # fmt: skip
def test_lists_yield_their_items_as_kubectl_reads_them(text: str, names: list[str]) -> None:
    found = read_manifest(text.encode(), source="f")
    read = [
        f"{one.object['apiVersion']} {one.object['kind']} {one.object['metadata']['name']}" for one in found.documents
    ]
    assert (read, found.skipped, found.errors) == (names, [], [])


def test_a_caller_may_select_documents_that_are_no_objects() -> None:
    text = f"{A}---\noperation: x\n---\noutput: y\n---\n{B}operation: z\n"
    found = read_manifest(text.encode(), source="f", select=lambda value: "operation" in value)
    assert [one.line for one in found.selected] == [5]
    assert [one.line for one in found.skipped] == [7]
    assert [one.line for one in found.documents] == [1, 9]


def test_a_strict_reader_raises_the_first_problem() -> None:
    with pytest.raises(ManifestError, match="f:5: has neither apiVersion nor kind"):
        read_documents(f"{A}---\na: b\n---\nkind: X\n", source="f")


def test_skipped_documents_are_counted_in_words() -> None:
    skipped = read_manifest(b"a: b\n---\nc: d\n", source="f").skipped
    assert describe_skipped([]) == ""
    assert describe_skipped(skipped[:1]) == "skipped 1 document that is no Kubernetes object"
    assert describe_skipped(skipped) == "skipped 2 documents that are no Kubernetes objects"


TEXT = """
apiVersion: v1
kind: Namespace
metadata:
  name: a
spec: {finalizer: []}
statuses: {}
"""


def test_findings_have_the_lines_of_their_fields() -> None:
    found = check_objects(read_documents(TEXT, source="a.yaml"), {})
    assert [(one.place, one.finding.level, one.text) for one in found] == [
        (
            "a.yaml:6",
            "error",
            "Namespace a: spec.finalizer: is not a field of NamespaceSpec; did you mean finalizers?",
        ),
        ("a.yaml:7", "error", "Namespace a: statuses: is not a field of Namespace; did you mean status?"),
    ]


def test_an_object_of_a_cluster_is_not_checked() -> None:
    (document,) = read_documents(TEXT, source="a.yaml")
    assert list(check_objects([Document(document.object, "cluster", 0)], {})) == []
