import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.patch import apply, diff, identical

SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, 2, "", "a", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "b/", "c~"]), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(VALUES, VALUES)
def test_applying_the_diff_gives_the_other_document_to_the_type(before: Any, after: Any) -> None:
    assert identical(apply(before, diff(before, after)), after)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_the_diff_means_the_same_to_apiservers_and_to_python_json_patch(before: Any, after: Any) -> None:
    operations = diff(before, after)
    assert identical(apply(before, operations, dialect="kubernetes"), after)
    assert jsonpatch.apply_patch(copy.deepcopy(before), copy.deepcopy(operations)) == after


@given(VALUES)
def test_equal_documents_differ_by_nothing(document: Any) -> None:
    assert diff(document, copy.deepcopy(document)) == []


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
        # As many elements as before, and still only one went and one came.
        ([1, 2, 3], [2, 3, 4], [{"op": "remove", "path": "/0"}, {"op": "add", "path": "/2", "value": 4}]),
        # An element that changed is found again by its name.
        (
            [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}],
            [{"name": "new"}, {"name": "a", "image": "2", "args": ["x"]}, {"name": "b"}],
            [
                {"op": "add", "path": "/0", "value": {"name": "new"}},
                {"op": "replace", "path": "/1/image", "value": "2"},
            ],
        ),
        # Many operations on the members of one object are longer than the object.
        (
            {"a": {"b": 1, "c": 2, "d": 3, "e": 4, "f": 5}},
            {"a": {"b": 2, "c": 3, "d": 4, "e": 5, "f": 6}},
            [{"op": "replace", "path": "/a", "value": {"b": 2, "c": 3, "d": 4, "e": 5, "f": 6}}],
        ),
        ({"a": [1, 2, 3, 4, 5]}, {"a": [3]}, [{"op": "replace", "path": "/a", "value": [3]}]),
        # Not where what stays is large, and not for the document itself.
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


def test_shared_branches_are_not_looked_into() -> None:
    class Loud(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError("looked into")

    shared = Loud(a=1)
    assert diff({"s": shared, "n": 1}, {"s": shared, "n": 2}) == [{"op": "replace", "path": "/n", "value": 2}]


def test_long_lists_are_compared_place_by_place() -> None:
    before = [{"number": number} for number in range(400)]
    after = [{"number": -number - 1} for number in range(401)]
    operations = diff({"l": before}, {"l": after})
    assert identical(apply({"l": before}, operations), {"l": after})


def test_no_operation_says_dash() -> None:
    assert diff({"l": []}, {"l": [1, 2]}) == [
        {"op": "add", "path": "/l/0", "value": 1},
        {"op": "add", "path": "/l/1", "value": 2},
    ]


NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcd"), "n": SCALARS}, optional={"l": VALUES}), max_size=6
)


@settings(max_examples=200, deadline=None)
@given(NAMED, NAMED)
def test_lists_of_named_elements_survive_in_any_order(before: Any, after: Any) -> None:
    operations = diff({"l": before}, {"l": after})
    assert identical(apply({"l": before}, operations), {"l": after})
    assert identical(apply({"l": before}, operations, dialect="kubernetes"), {"l": after})
