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
