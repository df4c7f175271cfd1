import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.patch import apply, diff, equal, identical
from tests.hypothesis_profiles import examples

SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, 2, "", "a", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "b/", "c~"]), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=examples(500))
@given(VALUES, VALUES)
def test_applying_the_diff_gives_the_other_document_with_its_types(before: Any, after: Any) -> None:
    assert identical(apply(before, diff(before, after)), after)


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_the_diff_has_one_result_in_kubernetes_and_in_python_json_patch(before: Any, after: Any) -> None:
    operations = diff(before, after)
    assert identical(apply(before, operations, dialect="kubernetes"), after)
    assert jsonpatch.apply_patch(copy.deepcopy(before), copy.deepcopy(operations)) == after


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"n": 1}, {"n": True}, [{"op": "replace", "path": "/n", "value": True}]),
        ({"n": 1}, {"n": 1.0}, [{"op": "replace", "path": "/n", "value": 1.0}]),
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        ([1, 2], [1, 2, 3, 4], [{"op": "add", "path": "/2", "value": 3}, {"op": "add", "path": "/3", "value": 4}]),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, [{"op": "replace", "path": "/a", "value": {"y": 2}}]),
        ({"a/b": 1}, {}, [{"op": "remove", "path": "/a~1b"}]),
        (
            [{"name": "a", "image": "1"}, {"name": "b"}],
            [{"name": "a", "image": "2"}, {"name": "b"}],
            [{"op": "replace", "path": "/0/image", "value": "2"}],
        ),
        (1, 2, [{"op": "replace", "path": "", "value": 2}]),
        # One element is removed and one added, although the length stays the same.
        ([1, 2, 3], [2, 3, 4], [{"op": "remove", "path": "/0"}, {"op": "add", "path": "/2", "value": 4}]),
        # A changed element is aligned by its name.
        (
            [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}],
            [{"name": "new"}, {"name": "a", "image": "2", "args": ["x"]}, {"name": "b"}],
            [
                {"op": "add", "path": "/0", "value": {"name": "new"}},
                {"op": "replace", "path": "/1/image", "value": "2"},
            ],
        ),
        # A replace of the object is shorter than the operations on its members.
        (
            {"a": {"b": 1, "c": 2, "d": 3, "e": 4, "f": 5}},
            {"a": {"b": 2, "c": 3, "d": 4, "e": 5, "f": 6}},
            [{"op": "replace", "path": "/a", "value": {"b": 2, "c": 3, "d": 4, "e": 5, "f": 6}}],
        ),
        ({"a": [1, 2, 3, 4, 5]}, {"a": [3]}, [{"op": "replace", "path": "/a", "value": [3]}]),
        # A large unchanged member prevents the replace. The document itself is never replaced.
        (
            {"a": {"b": 1, "c": 2, "d": 3, "e": "x" * 400}},
            {"a": {"b": 2, "c": 3, "d": 4, "e": "x" * 400}},
            [{"op": "replace", "path": f"/a/{name}", "value": value} for name, value in (("b", 2), ("c", 3), ("d", 4))],
        ),
        (
            {"b": 1, "c": 2, "d": 3},
            {"b": 2, "c": 3, "d": 4},
            [{"op": "replace", "path": f"/{name}", "value": value} for name, value in (("b", 2), ("c", 3), ("d", 4))],
        ),
    ],
)
def test_the_diff_is_small(before: Any, after: Any, expected: Any) -> None:
    assert diff(before, after) == expected
    assert [type(operation.get("value")) for operation in diff(before, after)] == [
        type(operation.get("value")) for operation in expected
    ]


def test_shared_branches_are_skipped() -> None:
    class Unreadable(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError("a shared branch was compared")

    shared = Unreadable(a=1)
    assert diff({"s": shared, "n": 1}, {"s": shared, "n": 2}) == [{"op": "replace", "path": "/n", "value": 2}]


def test_long_lists_are_compared_index_by_index() -> None:
    before = [{"number": number} for number in range(400)]
    after = [{"number": -number - 1} for number in range(401)]
    operations = diff({"l": before}, {"l": after})
    assert identical(apply({"l": before}, operations), {"l": after})


NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcd"), "n": SCALARS}, optional={"l": VALUES}), max_size=6
)


@settings(max_examples=examples(200))
@given(NAMED, NAMED)
def test_lists_of_named_elements_survive_in_any_order(before: Any, after: Any) -> None:
    operations = diff({"l": before}, {"l": after})
    assert identical(apply({"l": before}, operations), {"l": after})
    assert identical(apply({"l": before}, operations, dialect="kubernetes"), {"l": after})


def test_a_shifted_list_is_replaced() -> None:
    before = {"spec": {"l": [{"n": number} for number in range(5_000)]}}
    after = {"spec": {"l": [*before["spec"]["l"][1:], before["spec"]["l"][0]]}}
    assert diff(before, after) == [{"op": "replace", "path": "/spec/l", "value": after["spec"]["l"]}]


def test_an_object_whose_members_all_change_is_replaced() -> None:
    long = "x" * 100
    before = {"spec": {"m": {f"k{number}": {"a": long, "n": number} for number in range(5_000)}}}
    after = {"spec": {"m": {name: {**one, "n": -1} for name, one in before["spec"]["m"].items()}}}
    assert diff(before, after) == [{"op": "replace", "path": "/spec/m", "value": after["spec"]["m"]}]


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [1, {"a": None}], {"a": {"b": []}}])
def test_a_value_equals_its_copy(value: Any) -> None:
    copy = [*value] if isinstance(value, list) else {**value} if isinstance(value, dict) else value

    assert identical(value, copy)
    assert equal(value, copy)


@pytest.mark.parametrize(
    ("left", "right"), [(1, 1.0), ([1], [1.0]), ({"a": 0}, {"a": 0.0}), ({"a": [1]}, {"a": [1.0]})]
)
def test_numbers_of_different_types_are_equal_and_not_identical(left: Any, right: Any) -> None:
    assert equal(left, right)
    assert not identical(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, False),
        (None, False),
        ("1", 1),
        ([], {}),
        ([1], [1, 1]),
        ({"a": None}, {"b": None}),
        ({}, {"a": 1}),
    ],
)
def test_different_values_are_neither_equal_nor_identical(left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        assert not equal(one, other)
        assert not identical(one, other)


def test_members_may_have_any_order() -> None:
    assert identical({"a": 1, "b": 2}, {"b": 2, "a": 1})
