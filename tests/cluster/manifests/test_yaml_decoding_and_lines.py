import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError
from tests.hypothesis_profiles import examples

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"


def value_of(text: str) -> Any:
    (document,) = read_documents(f"{HEAD}data: {text}\n", source="f.yaml")
    return document.object["data"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{a: 1, a: 2}", "duplicate key 'a' (column 14)"), ("{1: a, '1': b}", "duplicate key '1'"),
        (".nan", "not a number that JSON has"), ("{[a]: b}", "a key must be a scalar"), ("[1", "expected"), ("{~: a}", "the key '~' is no text"),
        ("*nowhere", "undefined alias"), ("{<<: 1}", "'<<' merges mappings only"), ("[&x 1, &x 2]", "second occurrence"),
    ],
)  # fmt: skip
def test_values_without_json_form_are_errors_with_their_line(text: str, reason: str) -> None:
    with pytest.raises(ManifestError) as caught:
        value_of(text)
    assert reason in caught.value.reason
    assert str(caught.value).startswith("f.yaml:4: ") or caught.value.line == 5


def test_documents_are_split_and_empty_ones_skipped() -> None:
    text = f"---\n# nothing\n---\n{HEAD}---\n\n---\n{HEAD.replace('x', 'z')}...\n"
    documents = read_documents(text, source="f")
    assert [(document.object["metadata"]["name"], document.line) for document in documents] == [("x", 4), ("z", 10)]


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ManifestError, match="expands to more than 1000000 values"):
        read_documents(HEAD + "\n".join(lines), source="f")


@pytest.mark.parametrize(
    "text",
    ["[" * 5_000 + "]" * 5_000, "[ " * 100_000, "{a: " * 100_000, "\n- " + "- " * 100_000, "\n" + "? " * 100_000],
)
def test_deep_nesting_is_refused_before_it_ends_the_process(text: str) -> None:
    with pytest.raises(ManifestError, match="nested too deep"):
        read_documents(f"{HEAD}a: {text}", source="f")


def test_many_brackets_are_no_deep_nesting() -> None:
    (document,) = read_documents(f"{HEAD}a: [{', '.join(['[{b: 1}]'] * 1_000)}]\n", source="f")
    assert document.object["a"] == [[{"b": 1}]] * 1_000


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(150))
@given(VALUES)
def test_any_json_is_decoded_to_itself(value: Any) -> None:
    document = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "value": value}
    text = json.dumps(document)
    assert read_documents(text, source="f")[0].object == document
