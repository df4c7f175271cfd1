"""Differences from RFC 6902; tests/conformance/json_patch_kubernetes.yaml has the complete behaviour of upstream."""

from typing import Any

import pytest

from fleethook.patch import PatchError, apply

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
