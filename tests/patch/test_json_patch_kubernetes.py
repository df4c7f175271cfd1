"""Differences from RFC 6902; tests/conformance/json_patch_kubernetes.yaml has the complete behaviour of upstream."""

from typing import Any

import pytest

from fleethook.patch import PatchError, apply
from fleethook.patch.json_patch_kubernetes import (
    OperationPath,
    delete,
    find_container,
    get_member,
    insert,
    own_container,
    parse_path,
    resolve_index,
)
from fleethook.patch.pointer import Draft, MoveCounter, OperationError

NO_LIMIT = MoveCounter(None)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/a/b", OperationPath("/a/b", ("a",), "b")),
        ("ignored/a", OperationPath("ignored/a", (), "a")),
        ("/a~1b/~0", OperationPath("/a~1b/~0", ("a/b",), "~")),
        ("", OperationPath("")),
        ("a", OperationPath("a")),
        (None, OperationPath(error="operation missing path field: missing value")),
        (7, OperationPath(error="json: cannot unmarshal number into Go value of type string")),
        (True, OperationPath(error="json: cannot unmarshal bool into Go value of type string")),
        ([], OperationPath(error="json: cannot unmarshal array into Go value of type string")),
    ],
)
def test_the_target_of_a_path(path: Any, target: OperationPath) -> None:
    assert parse_path({"path": path}, "path") == target


@pytest.mark.parametrize(("token", "index"), [("0", 0), ("2", 2), ("02", 2), ("+1", 1), ("-1", 2), ("-3", 0)])
def test_an_index_may_be_negative_or_signed(token: str, index: int) -> None:
    assert resolve_index([1, 2, 3], token) == index


@pytest.mark.parametrize(
    ("token", "error"),
    [
        ("3", "Unable to access invalid index: 3: invalid index referenced"),
        ("-4", "Unable to access invalid index: -4: invalid index referenced"),
        ("x", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("1_0", 'strconv.Atoi: parsing "1_0": invalid syntax'),
        ("9223372036854775808", 'strconv.Atoi: parsing "9223372036854775808": value out of range'),
        ("9" * 5_000, f'strconv.Atoi: parsing "{"9" * 5_000}": value out of range'),
    ],
    ids=["large", "negative", "text", "underscore", "int64", "digits"],
)
def test_an_invalid_index_has_gos_error(token: str, error: str) -> None:
    with pytest.raises(OperationError) as caught:
        resolve_index([1, 2, 3], token)

    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("key", "result"), [("-", [1, 2, 9]), ("-1", [1, 2, 9]), ("-2", [1, 9, 2]), ("0", [9, 1, 2]), ("2", [1, 2, 9])]
)
def test_insertions_count_negative_indices_from_past_the_end(key: str, result: list[int]) -> None:
    array: list[Any] = [1, 2]
    insert(array, key, 9, moves=NO_LIMIT)

    assert array == result


def test_removing_a_missing_member_is_an_error() -> None:
    document: Any = {"a": 1}
    delete(document, "a", moves=NO_LIMIT)
    with pytest.raises(OperationError, match="Unable to remove nonexistent key: a: missing value"):
        delete(document, "a", moves=NO_LIMIT)


def test_a_missing_member_reads_as_null() -> None:
    assert get_member({}, "a") is None
    assert get_member([7], "-1") == 7


def test_only_a_container_for_changes_is_copied() -> None:
    document: Any = {"a": {"l": [1]}}
    draft, target = Draft(document), parse_path({"path": "/a/l/0"}, "path")

    assert find_container(draft, target, "missing") is document["a"]["l"]
    owned = own_container(draft, target, "missing")
    assert owned == [1]
    assert owned is not document["a"]["l"]


@pytest.mark.parametrize("path", ["", "/a/x/0", "/a/l/7/0", "/a/l/0/0"])
def test_a_missing_container_is_the_given_error(path: str) -> None:
    draft = Draft({"a": {"l": [1]}})

    with pytest.raises(OperationError, match=r"^missing$"):
        find_container(draft, parse_path({"path": path}, "path"), "missing")


DOCUMENT: Any = {"a": {"n": 1}, "l": [1, 2, 3]}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "replace", "path": "/a/x", "value": 2}, {"a": {"n": 1, "x": 2}}),
        ({"op": "copy", "from": "/a/x", "path": "/b"}, {"b": None}),
        ({"op": "test", "path": "/a/x", "value": None}, {}),
        ({"op": "add", "path": "/b"}, {"b": None}),
        ({"op": "add", "path": "ignored/b", "value": 1}, {"b": 1}),
        ({"op": "remove", "path": "/l/-1"}, {"l": [1, 2]}),
        ({"op": "add", "path": "/l/-1", "value": 4}, {"l": [1, 2, 3, 4]}),
        ({"op": "add", "path": "/l/-2", "value": 4}, {"l": [1, 2, 4, 3]}),
        ({"op": "replace", "path": "/l/+01", "value": 4}, {"l": [1, 4, 3]}),
        ({"op": "move", "from": "/l/-3", "path": "/l/-"}, {"l": [2, 3, 1]}),
    ],
)
def test_operations_that_rfc_6902_rejects_apply(operation: Any, result: Any) -> None:
    assert apply(DOCUMENT, [operation], dialect="kubernetes") == {**DOCUMENT, **result}
    with pytest.raises(PatchError):
        apply(DOCUMENT, [operation])


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"op": "add", "path": "", "value": {}}, 'add operation does not apply: doc is missing path: "": missing value'),
        ({"op": "test", "path": "/a/n", "value": 1.0}, "testing value /a/n failed: test failed"),
        ({"op": "replace", "path": "", "value": 1}, "replace operation value must be object or array"),
        ({"op": "copy", "from": "/l/0"}, "copy operation failed to decode path: missing value"),
        ({"op": "move", "path": "/b"}, "move operation failed to decode from: operation, missing from field: missing value"),
    ],
)  # fmt: skip
def test_errors_have_upstreams_text(operation: Any, reason: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply(DOCUMENT, [operation], dialect="kubernetes")

    assert caught.value.reason == reason
