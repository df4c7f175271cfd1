from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.patch import Dialect, PatchError, PatchLimits, apply, format_pointer, parse_pointer, resolve_pointer

# RFC 6901 section 5.
DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_rfc6901_examples_resolve(pointer: str, value: object) -> None:
    assert resolve_pointer(DOCUMENT, pointer) == value


@pytest.mark.parametrize("pointer", ["foo", "/a~2b", "/a~", "#/foo", "/~a"])
def test_a_malformed_pointer_is_rejected_with_its_text(pointer: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON pointer") as caught:
        parse_pointer(pointer)
    assert repr(pointer) in str(caught.value)


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/01", "/foo/-", "/foo/-1", "/foo/+1", "/foo/٣", "/x", "/foo/0/x"])
def test_a_missing_value_is_a_lookup_error(pointer: str) -> None:
    with pytest.raises(LookupError, match=pointer.replace("+", r"\+")):
        resolve_pointer(DOCUMENT, pointer)


@pytest.mark.parametrize(
    ("pointer", "problem"),
    [
        ("/foo/2", "index 2 is out of range: the array has 2 elements"),
        ("/foo/-1", "'-1' is not an array index"),
        ("/x", "member 'x' does not exist"),
        ("/foo/0/x", "no member 'x': its parent is neither object nor array"),
    ],
)
def test_a_lookup_error_has_the_reason(pointer: str, problem: str) -> None:
    with pytest.raises(LookupError) as caught:
        resolve_pointer(DOCUMENT, pointer)
    assert str(caught.value) == f"{pointer}: {problem}"


@given(st.lists(st.text()))
def test_formatted_tokens_parse_back(tokens: list[str]) -> None:
    assert parse_pointer(format_pointer(tokens)) == tuple(tokens)


DIALECTS: list[Dialect] = ["rfc6902", "kubernetes"]


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


def insertions(count: int, path: str = "/l/0") -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": 1}] * count


@pytest.mark.parametrize("dialect", DIALECTS)
def test_too_many_operations_are_rejected_before_the_first_one_is_applied(dialect: Dialect) -> None:
    limits = PatchLimits(operations=3)
    assert apply({"l": []}, insertions(3), dialect=dialect, limits=limits) == {"l": [1, 1, 1]}
    with pytest.raises(PatchError, match="patch: it has 4 operations, and the limit is 3 operations"):
        apply({"l": []}, insertions(4), dialect=dialect, limits=limits)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("operation", "moved"),
    [
        ({"op": "add", "path": "/l/0", "value": 1}, 10),
        ({"op": "add", "path": "/l/7", "value": 1}, 3),
        ({"op": "add", "path": "/l/-", "value": 1}, 0),
        ({"op": "remove", "path": "/l/0"}, 10),
        ({"op": "remove", "path": "/l/9"}, 1),
        ({"op": "move", "from": "/l/0", "path": "/l/0"}, 19),
        ({"op": "move", "from": "/l/0", "path": "/l/-"}, 10),
        ({"op": "copy", "from": "/l/0", "path": "/l/0"}, 10),
        ({"op": "replace", "path": "/l/0", "value": 11}, 0),
        ({"op": "add", "path": "/m", "value": 1}, 0),
    ],
)
def test_the_limit_counts_the_elements_that_an_operation_moves(dialect: Dialect, operation: Any, moved: int) -> None:
    if (dialect, operation["op"], operation["path"]) == ("rfc6902", "move", "/l/0"):
        moved = 0  # In RFC 6902, a move to its own source does nothing.
    document = {"l": list(range(10))}
    apply(document, [operation], dialect=dialect, limits=PatchLimits(moved=moved))
    if moved:
        with pytest.raises(PatchError, match=f"moves more than {moved - 1} elements of lists, which is the limit"):
            apply(document, [operation], dialect=dialect, limits=PatchLimits(moved=moved - 1))


def test_the_error_names_the_operation_that_exceeds_the_limit() -> None:
    with pytest.raises(PatchError) as raised:
        apply({"l": []}, insertions(5), limits=PatchLimits(moved=3))
    assert (raised.value.index, raised.value.path) == (3, "/l/0")


def test_a_patch_without_limits_is_unlimited() -> None:
    assert len(apply({"l": []}, insertions(20_000, "/l/-"))["l"]) == 20_000


def test_the_size_of_a_patch_is_limited() -> None:
    limits = PatchLimits(size=100)
    limits.check_size(100)
    with pytest.raises(PatchError, match="patch: its text has 101 bytes, and the limit is 100 bytes"):
        limits.check_size(101)
