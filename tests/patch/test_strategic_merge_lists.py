from typing import Any

import pytest

from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.limits import StrategicMergeError
from fleethook.patch.strategic_merge_patch import (
    delete_scalars,
    drop_deleted,
    identify_element,
    merge_scalars,
    order_elements,
    order_list,
    parse_edits,
)


@pytest.mark.parametrize(
    ("merged", "wanted", "server", "expected"),
    [
        ("abc", "", "abc", "abc"),
        ("abc", "cba", "abc", "cba"),
        # An element of the server comes first only if it preceded the next element of the patch.
        ("abcx", "x", "abc", "xabc"),
        ("abcx", "bx", "abc", "abxc"),
        ("abc", "ca", "abc", "bca"),
        ("abcd", "db", "abcd", "acdb"),
        ("aab", "a", "aab", "aab"),
        ("", "ab", "", ""),
    ],
)
def test_elements_of_the_patch_keep_its_order_among_those_of_the_server(
    merged: str, wanted: str, server: str, expected: str
) -> None:
    assert "".join(order_elements(list(merged), wanted=wanted, server=server, identify=str)) == expected


NAMED = MergeSchema(merge_key="name")


def named(*names: str) -> list[Any]:
    return [{"name": name} for name in names]


def test_identities_of_different_types_differ() -> None:
    assert len({identify_element(value, None, "/l") for value in (1, 1.0, True, "1")}) == 4
    assert identify_element({"name": "a", "x": 1}, "name", "/l") == identify_element("a", None, "/l")


@pytest.mark.parametrize(
    ("element", "key", "error"),
    [
        ({}, "name", "/l: has no 'name', by which elements of this list are merged"),
        ("a", "name", "/l: has no 'name', by which elements of this list are merged"),
        ({"name": []}, "name", "/l: must have a scalar as its 'name'"),
        ({}, None, "/l: must be a scalar"),
    ],
)
def test_an_element_without_identity_is_an_error(element: Any, key: str | None, error: str) -> None:
    with pytest.raises(StrategicMergeError) as caught:
        identify_element(element, key, "/l")

    assert str(caught.value) == error


def test_edits_separate_merges_from_deletions() -> None:
    edits = parse_edits([{"name": "a", "x": 1, "$patch": "merge"}, {"name": "b", "$patch": "delete"}], "name", "/l")

    assert edits.upserts == [((str, "a"), "/l/0", {"name": "a", "x": 1})]
    assert edits.deleted == {(str, "b")}
    assert not edits.replace
    assert parse_edits([{"$patch": "replace"}], "name", "/l").replace
    assert drop_deleted(named("a", "b"), "name", deleted=edits.deleted, path="/l") == named("a")


def test_the_union_of_scalars_has_the_order_of_the_patch() -> None:
    assert merge_scalars(["a", "b"], ["c", "a"], order=None, path="/l") == ["c", "a", "b"]
    assert merge_scalars(["a", "b"], ["c"], order=["b", "c", "a"], path="/l") == ["b", "c", "a"]


def test_deleting_scalars_keeps_an_unaffected_list() -> None:
    present = ["a", "b"]
    result: Any = {"l": present}
    delete_scalars(result, "l", ["x"], path="/l")
    assert result["l"] is present
    delete_scalars(result, "l", ["a"], path="/l")
    delete_scalars(result, "missing", ["a"], path="/missing")
    assert result == {"l": ["b"]}


def test_a_list_in_order_is_returned_itself() -> None:
    present = named("a", "b")

    assert order_list(present, named("a", "b"), named=(), schema=NAMED, path="/l") is present
    assert order_list(present, named("b", "a"), named=(), schema=NAMED, path="/l") == named("b", "a")


@pytest.mark.parametrize(
    ("order", "schema", "error"),
    [
        (named("b", "a"), NAMED, "/l: the elements of the patch are not in the order of its $setElementOrder"),
        ("a", NAMED, "/l: must be a list"),
        (named("a", "b"), MergeSchema(), "/l: orders a list that the patch can only replace: remove the order"),
    ],
)
def test_an_invalid_order_is_an_error(order: Any, schema: MergeSchema, error: str) -> None:
    with pytest.raises(StrategicMergeError) as caught:
        order_list(named("a", "b"), order, named=named("a", "b"), schema=schema, path="/l")

    assert str(caught.value) == error
