"""tests/conformance/json_patch_rfc6902.yaml has the cases of the RFC; this module has our errors."""

from typing import Any

import pytest

from fleethook.patch import PatchError, apply

DOCUMENT: Any = {"a": {"n": 1}, "l": [1, 2]}


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"op": "put", "path": "/a"}, "op must be one of add, remove, replace, move, copy, test, not 'put'"),
        ({"op": "add", "value": 1}, "path is missing"),
        ({"op": "add", "path": "/b"}, "value is missing"),
        ({"op": "copy", "path": "/b"}, "from is missing"),
        ({"op": "remove", "path": "a"}, "'a' is not a JSON pointer: it does not start with '/'"),
        ({"op": "remove", "path": ""}, "the document itself cannot be removed"),
        ({"op": "move", "from": "/a", "path": "/a/b"}, "a value cannot be moved into itself"),
        ({"op": "replace", "path": "/b", "value": 1}, "member 'b' does not exist"),
        ({"op": "add", "path": "/l/3", "value": 1}, "index 3 is out of range: the array has 2 elements"),
        ({"op": "add", "path": "/l/-1", "value": 1}, "'-1' is not an array index"),
        ({"op": "add", "path": "/a/n/x", "value": 1}, "cannot add 'x': its parent is neither object nor array"),
        ({"op": "remove", "path": "/a/n/x"}, "no member 'x': its parent is neither object nor array"),
        ({"op": "remove", "path": "/l/-"}, "'-' is not an array index"),
    ],
)
def test_an_error_has_the_reason(operation: Any, reason: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply(DOCUMENT, [operation])

    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "move", "from": "/a", "path": "/a"}, DOCUMENT),
        ({"op": "move", "from": "/a", "path": ""}, {"n": 1}),
        ({"op": "move", "from": "/a/n", "path": "/l/0"}, {"a": {}, "l": [1, 1, 2]}),
        ({"op": "test", "path": "/a/n", "value": 1.0}, DOCUMENT),
        ({"op": "add", "path": "", "value": [1]}, [1]),
    ],
)
def test_operations_apply_as_in_the_rfc(operation: Any, result: Any) -> None:
    assert apply(DOCUMENT, [operation]) == result


def test_a_move_to_its_own_source_changes_nothing() -> None:
    assert apply(DOCUMENT, [{"op": "move", "from": "/a/n", "path": "/a/n"}]) is DOCUMENT
    with pytest.raises(PatchError, match="member 'x' does not exist"):
        apply(DOCUMENT, [{"op": "move", "from": "/a/x", "path": "/a/x"}])
