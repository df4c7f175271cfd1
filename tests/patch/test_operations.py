import contextlib
import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.patch import PatchError, apply, compile_patch, equal

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]) | st.sampled_from([0.5, 1.0])
NAMES = st.sampled_from(["a", "b", "~", "/", "0", "-", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TOKENS = st.sampled_from(["a", "b", "~0", "~1", "0", "1", "2", "-", "", "01", "-1", "9"])
POINTERS = st.lists(TOKENS, max_size=3).map(lambda tokens: "".join(f"/{token}" for token in tokens))
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace", "test"]), "path": POINTERS, "value": VALUES}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": POINTERS}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": POINTERS, "path": POINTERS}),
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3) | st.lists(VALUES, max_size=3)


def oracle(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Return what python-json-patch makes of it, or None where it refuses."""
    try:
        return jsonpatch.apply_patch(copy.deepcopy(document), copy.deepcopy(operations))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError, IndexError):
        return None


def beyond_the_oracle(operations: list[dict[str, Any]]) -> bool:
    """Whether python-json-patch is known not to follow RFC 6902 here.

    It takes true and 1 for equal in a test, and has ways of its own with the whole document as a source or a target.
    """
    pointers = [pointer for operation in operations for pointer in (operation["path"], operation.get("from"))]
    return "" in pointers or any(operation["op"] == "test" for operation in operations)


@settings(max_examples=400, deadline=None)
@given(DOCUMENTS, st.lists(OPERATIONS, max_size=4))
def test_results_are_those_of_python_json_patch(document: Any, operations: list[dict[str, Any]]) -> None:
    assume(not beyond_the_oracle(operations))
    expected = oracle(document, operations)
    try:
        result = apply(document, operations)
    except PatchError:
        assert expected is None or _lax(operations)
    else:
        assert equal(result, expected)


def _lax(operations: list[dict[str, Any]]) -> bool:
    """python-json-patch takes "-" and a numeral out of range of a string, and removes "-"; the RFC does not."""
    return any("-" in operation["path"] or "-" in operation.get("from", "") for operation in operations)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, st.lists(OPERATIONS, max_size=5), st.sampled_from(["rfc6902", "kubernetes"]))
def test_the_input_is_never_changed(document: Any, operations: list[dict[str, Any]], dialect: Any) -> None:
    before, given_operations = copy.deepcopy(document), copy.deepcopy(operations)
    with contextlib.suppress(PatchError):
        apply(document, operations, dialect=dialect)
    assert repr(document) == repr(before)
    assert repr(operations) == repr(given_operations)


def test_untouched_branches_are_shared_and_touched_ones_copied() -> None:
    document = {"a": {"deep": [1]}, "b": {"c": [1, 2]}}
    result = apply(document, [{"op": "add", "path": "/b/c/-", "value": 3}])
    assert result == {"a": {"deep": [1]}, "b": {"c": [1, 2, 3]}}
    assert result["a"] is document["a"]
    assert result["b"] is not document["b"]


def test_a_compiled_patch_can_be_applied_again_and_again() -> None:
    patch = compile_patch([{"op": "add", "path": "/l", "value": []}, {"op": "add", "path": "/l/-", "value": 1}])
    assert patch.apply({}) == patch.apply({}) == {"l": [1]}


def test_a_copied_value_does_not_change_with_its_source() -> None:
    operations = [
        {"op": "add", "path": "/a", "value": {"n": 1}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "/a/n", "value": 2},
    ]
    assert apply({}, operations) == {"a": {"n": 2}, "b": {"n": 1}}


def test_all_or_nothing() -> None:
    document = {"n": 1}
    with pytest.raises(PatchError):
        apply(document, [{"op": "replace", "path": "/n", "value": 2}, {"op": "remove", "path": "/x"}])
    assert document == {"n": 1}


def test_an_error_names_index_operation_and_path() -> None:
    operations = [{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/spec/x"}]
    with pytest.raises(PatchError) as caught:
        apply({}, operations)
    assert (caught.value.index, caught.value.op, caught.value.path) == (1, "remove", "/spec/x")
    assert str(caught.value) == "operation 1 (remove /spec/x): member 'spec' does not exist"


def test_a_malformed_operation_is_found_when_compiling() -> None:
    with pytest.raises(PatchError, match=r"operation 0 \(add /a\): value is missing"):
        compile_patch([{"op": "add", "path": "/a"}])


@pytest.mark.parametrize("operations", [{}, "[]", None, [1], [[]]])
def test_what_is_no_array_of_objects_is_refused(operations: Any) -> None:
    with pytest.raises(PatchError):
        apply({}, operations)
