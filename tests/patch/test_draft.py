from typing import Any

import pytest

from fleethook.patch import Dialect, PatchError, apply
from fleethook.patch.draft import Draft
from fleethook.patch.pointer import locate

DIALECTS: list[Dialect] = ["rfc6902", "kubernetes"]


def test_reading_a_draft_copies_nothing() -> None:
    document = {"a": {"l": [1]}}
    draft = Draft(document)

    assert draft.find(("a", "l"), locate) is document["a"]["l"]
    assert draft.root is document


def test_only_changed_branches_are_copied() -> None:
    document = {"a": {"deep": [1]}, "b": {"c": [1, 2]}}
    result = apply(document, [{"op": "add", "path": "/b/c/-", "value": 3}])
    assert result == {"a": {"deep": [1]}, "b": {"c": [1, 2, 3]}}
    assert result["a"] is document["a"]
    assert result["b"] is not document["b"]


def test_a_change_of_the_source_leaves_the_copy_unchanged() -> None:
    operations = [
        {"op": "add", "path": "/a", "value": {"n": 1}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "/a/n", "value": 2},
    ]
    assert apply({}, operations) == {"a": {"n": 2}, "b": {"n": 1}}


class Counting(dict[str, Any]):
    """An object that counts its copies."""

    copies = 0

    def copy(self) -> "Counting":
        Counting.copies += 1
        return Counting(self)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_many_changes_copy_a_container_once(dialect: Dialect) -> None:
    Counting.copies = 0
    operations = [{"op": "add", "path": f"/a/m{number}", "value": number} for number in range(20)]
    result = apply({"a": Counting()}, operations, dialect=dialect)
    assert Counting.copies == 1
    assert len(result["a"]) == 20


@pytest.mark.parametrize("dialect", DIALECTS)
def test_source_and_target_of_a_copy_change_independently(dialect: Dialect) -> None:
    operations = [
        {"op": "add", "path": "/a/l/0/x", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/l/0/y", "value": 2},
        {"op": "add", "path": "/b/l/0/z", "value": 3},
        {"op": "copy", "from": "/b/l", "path": "/c"},
        {"op": "add", "path": "/c/-", "value": 4},
    ]
    document = {"a": {"l": [{}], "kept": {}}}
    result = apply(document, operations, dialect=dialect)
    assert result == {
        "a": {"l": [{"x": 1, "y": 2}], "kept": {}},
        "b": {"l": [{"x": 1, "z": 3}], "kept": {}},
        "c": [{"x": 1, "z": 3}, 4],
    }
    assert document == {"a": {"l": [{}], "kept": {}}}
    assert result["a"]["kept"] is result["b"]["kept"] is document["a"]["kept"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_change_of_the_document_leaves_the_patch_unchanged(dialect: Dialect) -> None:
    value: dict[str, Any] = {"l": []}
    operations = [{"op": "add", "path": "/a", "value": value}, {"op": "add", "path": "/a/l/-", "value": 1}]
    assert apply({}, operations, dialect=dialect) == {"a": {"l": [1]}}
    assert value == {"l": []}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_total_size_of_copies_is_limited(dialect: Dialect) -> None:
    # Each operation doubles the document: forty operations turn one byte into a terabyte.
    operations = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(40)]
    with pytest.raises(PatchError, match=r"accumulated size increase of copy is .* exceeding the limit 3145728"):
        apply({"a": ["x"]}, operations, dialect=dialect)
