"""Differences from RFC 6902; tests/conformance/json_patch_kubernetes.yaml has the complete behaviour of upstream."""

from typing import Any

import pytest

from fleethook.patch import PatchError, apply

DOCUMENT: Any = {"a": {"n": 1}, "l": [1, 2, 3]}


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
