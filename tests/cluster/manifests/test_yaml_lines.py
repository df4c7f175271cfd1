import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.manifests.yaml_decoding_and_lines import FieldLines
from tests.hypothesis_profiles import examples

TEXT = """\
# a comment
apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppOverrider
metadata:
  name: demo1
  annotations:
    example.org/note.text: x
subject: {kind: YurtAppSet,
  name: demo}
entries:
- pools: [a,
    b]
  items:
  - replicas: 3
  -
    image:
      containerName: app
- pools: ["*"]
  patches:
  - operation: add
    path: /x
    value: &v
      deep: {er: [1,
        2]}
  - {operation: add, path: /y, value: *v}
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 2),
        ("subject", 8),
        ("subject.name", 9),
        ("entries", 10),
        ("entries[0]", 11),
        ("entries[0].pools[1]", 12),
        ("entries[0].items[0].replicas", 14),
        ("entries[0].items[1]", 16),
        ("entries[0].items[1].image.containerName", 17),
        ("entries[0].items[1].image.imageClaim", 16),
        ("entries[1].patches[0].path", 21),
        ("entries[1].patches[0].value.deep.er[1]", 24),
        ("entries[1].patches[1].value", 25),
        ("entries[1].patches[1].value.deep", 23),
        ("entries[7].pools", 10),
        ("entries[x]", 10),
        ("nothing", 2),
        ("metadata.annotations.example.org/note.text", 7),
        ("metadata.annotations.example.org/other", 6),
    ],
)
def test_a_field_has_the_line_of_its_key_or_of_its_nearest_parent(field: str, line: int) -> None:
    (document,) = read_documents(TEXT, source="f.yaml")
    assert FieldLines().line(document, field) == line


def test_documents_and_lists_have_lines_of_their_own() -> None:
    text = (
        "---\n\n---\napiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: v1\n  kind: A\n  metadata: {name: a}\n"
        "- apiVersion: v1\n  kind: List\n  items:\n"
        "  - apiVersion: v1\n    kind: B\n    metadata:\n      name: b\n"
    )
    first, second = read_documents(text, source="f.yaml")
    lines = FieldLines()
    assert (lines.line(first, ""), lines.line(first, "kind")) == (7, 8)
    assert (lines.line(second, ""), lines.line(second, "metadata.name")) == (13, 16)


def test_json_has_lines_too() -> None:
    text = '{"apiVersion": "v1", "kind": "A",\n "metadata": {"name": "a"},\n "entries": [\n  {"pools": []}]}'
    (document,) = read_documents(text, source="f.json")
    assert FieldLines().line(document, "entries[0].pools") == 4


@settings(max_examples=examples(100))
@given(st.text(st.sampled_from("ab.[]0 entris"), max_size=20))
def test_any_field_has_some_line(field: str) -> None:
    (document,) = read_documents(TEXT, source="f.yaml")
    assert 2 <= FieldLines().line(document, field) <= 25
