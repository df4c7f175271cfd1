import contextlib
import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.patch import Dialect, PatchError, apply, compile_patch, equal

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


BOTH: list[Dialect] = ["rfc6902", "kubernetes"]


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(
    "operations",
    [
        [],
        [{"op": "replace", "path": "/a/n", "value": 1}],
        [{"op": "add", "path": "/a", "value": {"n": 1}}],
        [{"op": "replace", "path": "", "value": {"a": {"n": 1}, "l": [0]}}],
        [{"op": "replace", "path": "/l/0", "value": 0}],
        [{"op": "test", "path": "/a/n", "value": 1}],
    ],
)
def test_a_patch_that_changes_nothing_gives_the_document_itself(dialect: Dialect, operations: Any) -> None:
    document = {"a": {"n": 1}, "l": [0]}
    assert apply(document, operations, dialect=dialect) is document


@pytest.mark.parametrize("dialect", BOTH)
def test_another_type_is_a_change(dialect: Dialect) -> None:
    result = apply({"n": 1}, [{"op": "replace", "path": "/n", "value": True}], dialect=dialect)
    assert result["n"] is True


class Counting(dict[str, Any]):
    """An object that counts how often it is copied."""

    copies = 0

    def copy(self) -> "Counting":
        Counting.copies += 1
        return Counting(self)


@pytest.mark.parametrize("dialect", BOTH)
def test_a_container_is_copied_once_however_often_it_changes(dialect: Dialect) -> None:
    Counting.copies = 0
    operations = [{"op": "add", "path": f"/a/m{number}", "value": number} for number in range(20)]
    result = apply({"a": Counting()}, operations, dialect=dialect)
    assert Counting.copies == 1
    assert len(result["a"]) == 20


@pytest.mark.parametrize("dialect", BOTH)
def test_the_two_places_of_a_copy_change_apart(dialect: Dialect) -> None:
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


@pytest.mark.parametrize("dialect", BOTH)
def test_a_value_of_the_patch_does_not_change_with_the_document(dialect: Dialect) -> None:
    value: dict[str, Any] = {"l": []}
    operations = [{"op": "add", "path": "/a", "value": value}, {"op": "add", "path": "/a/l/-", "value": 1}]
    assert apply({}, operations, dialect=dialect) == {"a": {"l": [1]}}
    assert value == {"l": []}


@pytest.mark.parametrize("dialect", BOTH)
def test_copies_cannot_grow_without_bound(dialect: Dialect) -> None:
    # Each operation doubles the document: forty of them would make a terabyte of one byte.
    operations = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(40)]
    with pytest.raises(PatchError, match=r"accumulated size increase of copy is .* exceeding the limit 3145728"):
        apply({"a": ["x"]}, operations, dialect=dialect)


@pytest.mark.parametrize("dialect", BOTH)
def test_what_is_nested_too_deeply_is_refused(dialect: Dialect) -> None:
    left: Any = []
    right: Any = []
    for _ in range(5000):
        left, right = [left], [right]
    with pytest.raises(PatchError, match=r"operation 0 \(test /a\): .* nested too deeply"):
        apply({"a": left}, [{"op": "test", "path": "/a", "value": right}], dialect=dialect)


@pytest.mark.parametrize("op", [None, 1, [], {}, True, "Add"])
@pytest.mark.parametrize("dialect", BOTH)
def test_an_op_of_any_kind_is_refused_by_name(dialect: Dialect, op: Any) -> None:
    with pytest.raises(PatchError) as caught:
        apply({}, [{"op": op, "path": "", "value": 1}], dialect=dialect)
    assert caught.value.index == 0


def test_apiservers_refuse_a_malformed_operation_only_in_its_turn() -> None:
    compiled = compile_patch([{"op": "bogus", "path": "/a"}], dialect="kubernetes")
    with pytest.raises(PatchError) as caught:
        compiled.apply({})
    assert caught.value.reason == "Unexpected kind: bogus"


@settings(max_examples=200, deadline=None)
@given(DOCUMENTS, st.lists(OPERATIONS, max_size=4))
def test_what_rfc6902_accepts_means_the_same_to_apiservers(document: Any, operations: list[dict[str, Any]]) -> None:
    # Left out, because apiservers refuse them: the whole document as a target or a source, scalars that are equal only
    # as numbers, and a document whose root has become a scalar.
    assume(not any("" in (operation["path"], operation.get("from")) for operation in operations))
    try:
        expected = apply(document, operations)
    except PatchError:
        return
    try:
        result = apply(document, operations, dialect="kubernetes")
    except PatchError as refused:
        result = refused
    if isinstance(result, PatchError):
        # 1 and 1.0 are equal to RFC 6902 only.
        assert result.reason.endswith("test failed")
    else:
        assert equal(result, expected)
