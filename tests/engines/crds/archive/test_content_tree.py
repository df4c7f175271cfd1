"""CRDs and patches of a tarball, in order."""

from collections.abc import Mapping

import pytest

from fleethook.engines.crds.archive.names_content_limits import Content, Tree, YAMLBudget, read_object
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.tarballs import crd, patch


def read_files(files: Mapping[str, bytes]) -> Tree:
    content = Content(keep=True)
    for path, body in files.items():
        content.add(path, body)
    return content.build_tree()


def problem(path: str, text: str) -> tuple[Exit, str]:
    with pytest.raises(CRDsError) as raised:
        read_object(path, text.encode(), YAMLBudget())
    return raised.value.exit, str(raised.value)


def test_files_come_in_the_order_in_which_go_walks() -> None:
    names = {
        "crds/bases/b.yaml": "b", "crds/bases/a/z.yaml": "a-z", "crds/bases/a.yaml": "a", "crds/bases/a-b/c.yaml": "a-b-c",
        "crds/bases/a/y/k.yaml": "a-y-k", "crds/bases/B.yaml": "upper", "crds/bases/.yaml": "hidden",
    }  # fmt: skip
    files = {path: crd(name, "x.karmada.io") for path, name in names.items()}
    found = read_files(files)
    order = ["hidden", "upper", "a-y-k", "a-z", "a-b-c", "a", "b"]
    assert list(found.crds) == [f"{name}.x.karmada.io" for name in order]


def test_only_yaml_files_count() -> None:
    files = {
        "crds/bases/a.yaml": crd("as", "x.karmada.io"), "crds/bases/b.yml": b"{", "crds/bases/c.json": b"{",
        "crds/kustomization.yaml": b"{", "crds/patches/README": b"\xff", "crds/patches/x_as.yaml": patch("as"),
        "crds/bases/d.yaml/e.yaml": crd("es", "x.karmada.io"),
    }  # fmt: skip
    found = read_files(files)
    assert list(found.crds) == ["as.x.karmada.io", "es.x.karmada.io"]
    assert found.patches == {"crds/patches/x_as.yaml": patch("as").decode()}


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("a: 1\n---\nb: 2\n", {"a": 1}),
        ("# first\n---\na: 1\n---\nb: 2\n", {"a": 1}),
        ("a: 1\n---\nb: [unknown: !!binary x]\n", {"a": 1}),
        ("a: ü😀\n...\n---\nb: 2\n", {"a": "ü😀"}),
        ("a: |\n  ---\n  b\n---\nc: 3\n", {"a": "---\nb\n"}),
        ("a: 1\n---\nb: 1\nb: 2\n", {"a": 1}),
    ],
)
def test_only_the_first_document_counts(text: str, document: object) -> None:
    assert read_object("x.yaml", text.encode(), YAMLBudget()) == document


def test_scalars_have_the_types_of_kubernetes_tools() -> None:
    text = "a: [on, 'on', 2020-01-01, 1_000, 0o17, 1e3, '1e3', 12:30, ~, '', y]\n"
    assert read_object("x.yaml", text.encode(), YAMLBudget())["a"] == [
        True, "on", "2020-01-01", 1000, 15, 1000, "1e3", "12:30", None, "", True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x.yaml is no object"),
        ("- a\n", "x.yaml is no object"),
        ("text\n", "x.yaml is no object"),
        ("--- ~\n---\na: 1\n", "x.yaml is no object"),
        ("{", "x.yaml cannot be read: it is not YAML in line 2: did not find expected node content"),
        ("a: &b 1\nc: *b\n", "x.yaml cannot be read: it has aliases"),
        ("[" * 1000 + "]" * 1000, "x.yaml cannot be read: it has more than 200 levels"),
        ('{"a":' * 100_000, "x.yaml cannot be read: it has more than 200 levels"),
        ("a: 1\na: 2\n", "x.yaml:2: duplicate key 'a' (column 1)"),
        ("a: .nan\n", "x.yaml:1: nan is not a number that JSON has (column 4)"),
        ("a: !!binary x\n", "x.yaml:1: the tag !!binary is not supported: write the value without it (column 4)"),
        ("a: \x00\n", "x.yaml cannot be read: it is not YAML: a character that YAML does not allow"),
    ],
    ids=range(12),
)
def test_a_document_that_is_not_an_object_is_reported_with_its_path(text: str, words: str) -> None:
    assert problem("x.yaml", text) == (Exit.ARCHIVE, words)
