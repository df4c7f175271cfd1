from typing import Any

import pytest

from fleethook.patch.draft import Draft
from fleethook.patch.json_patch_kubernetes_paths import (
    OperationPath,
    delete,
    find_container,
    get_member,
    insert,
    own_container,
    parse_path,
    resolve_index,
)
from fleethook.patch.limits import MoveCounter
from fleethook.patch.patch_errors import OperationError

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
