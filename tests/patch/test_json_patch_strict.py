"""tests/conformance/json_patch_rfc6902.yaml has the cases of the RFC; this module has our errors."""

import contextlib
import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleethook.patch import Dialect, PatchError, apply, compile_patch, equal
from tests.hypothesis_profiles import examples

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
    """Return the result of python-json-patch, or None if it rejects the patch."""
    try:
        return jsonpatch.apply_patch(copy.deepcopy(document), copy.deepcopy(operations))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError, IndexError):
        return None


def is_beyond_the_oracle(operations: list[dict[str, Any]]) -> bool:
    """Return whether python-json-patch deviates from RFC 6902 for these operations.

    In a test, it treats true and 1 as equal. It also handles the document itself as source or target differently.
    """
    pointers = [pointer for operation in operations for pointer in (operation["path"], operation.get("from"))]
    return "" in pointers or any(operation["op"] == "test" for operation in operations)


@settings(max_examples=examples(400))
@given(DOCUMENTS, st.lists(OPERATIONS, max_size=4))
def test_results_equal_those_of_python_json_patch(document: Any, operations: list[dict[str, Any]]) -> None:
    assume(not is_beyond_the_oracle(operations))
    expected = oracle(document, operations)
    try:
        result = apply(document, operations)
    except PatchError:
        assert expected is None or is_lax(operations)
    else:
        assert equal(result, expected)


def is_lax(operations: list[dict[str, Any]]) -> bool:
    """Return whether python-json-patch may accept a ``-`` that the RFC rejects, such as in ``remove``."""
    return any("-" in operation["path"] or "-" in operation.get("from", "") for operation in operations)


@settings(max_examples=examples(300))
@given(DOCUMENTS, st.lists(OPERATIONS, max_size=5), st.sampled_from(["rfc6902", "kubernetes"]))
def test_the_input_is_never_changed(document: Any, operations: list[dict[str, Any]], dialect: Any) -> None:
    before, given_operations = copy.deepcopy(document), copy.deepcopy(operations)
    with contextlib.suppress(PatchError):
        apply(document, operations, dialect=dialect)
    assert repr(document) == repr(before)
    assert repr(operations) == repr(given_operations)


def test_a_compiled_patch_applies_to_many_documents() -> None:
    patch = compile_patch([{"op": "add", "path": "/l", "value": []}, {"op": "add", "path": "/l/-", "value": 1}])
    assert patch.apply({}) == patch.apply({}) == {"l": [1]}


def test_a_failed_patch_leaves_the_document_unchanged() -> None:
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


def test_compiling_finds_a_malformed_operation() -> None:
    with pytest.raises(PatchError, match=r"operation 0 \(add /a\): value is missing"):
        compile_patch([{"op": "add", "path": "/a"}])


@pytest.mark.parametrize("operations", [{}, "[]", None, [1], [[]]])
def test_a_patch_must_be_an_array_of_objects(operations: Any) -> None:
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
def test_a_patch_without_changes_returns_the_document_itself(dialect: Dialect, operations: Any) -> None:
    document = {"a": {"n": 1}, "l": [0]}
    assert apply(document, operations, dialect=dialect) is document


@pytest.mark.parametrize("dialect", BOTH)
def test_a_value_of_another_type_is_a_change(dialect: Dialect) -> None:
    result = apply({"n": 1}, [{"op": "replace", "path": "/n", "value": True}], dialect=dialect)
    assert result["n"] is True


@pytest.mark.parametrize("dialect", BOTH)
def test_deeply_nested_values_are_rejected(dialect: Dialect) -> None:
    left: Any = []
    right: Any = []
    for _ in range(5000):
        left, right = [left], [right]
    with pytest.raises(PatchError, match=r"operation 0 \(test /a\): .* nested too deeply"):
        apply({"a": left}, [{"op": "test", "path": "/a", "value": right}], dialect=dialect)


@pytest.mark.parametrize("op", [None, 1, [], {}, True, "Add"])
@pytest.mark.parametrize("dialect", BOTH)
def test_an_invalid_op_is_rejected(dialect: Dialect, op: Any) -> None:
    with pytest.raises(PatchError) as caught:
        apply({}, [{"op": op, "path": "", "value": 1}], dialect=dialect)
    assert caught.value.index == 0


def test_the_kubernetes_dialect_reports_a_malformed_operation_in_its_turn() -> None:
    compiled = compile_patch([{"op": "bogus", "path": "/a"}], dialect="kubernetes")
    with pytest.raises(PatchError) as caught:
        compiled.apply({})
    assert caught.value.reason == "Unexpected kind: bogus"


@settings(max_examples=examples(200))
@given(DOCUMENTS, st.lists(OPERATIONS, max_size=4))
def test_patches_valid_in_rfc6902_have_the_same_result_in_kubernetes(
    document: Any, operations: list[dict[str, Any]]
) -> None:
    # Excluded, because kube-apiserver rejects it: the document itself as source or target.
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
        # 1 and 1.0 are equal in RFC 6902 only.
        assert result.reason.endswith("test failed")
    else:
        assert equal(result, expected)
