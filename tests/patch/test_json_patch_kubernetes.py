"""Differences from RFC 6902; tests/conformance/json_patch_kubernetes.yaml has the complete behaviour of upstream."""

from typing import Any

import pytest

from fleethook.patch import PatchError, apply
from fleethook.patch.json_patch_kubernetes import (
    find_container,
    own_container,
    parse_path,
)
from fleethook.patch.pointer import Draft, OperationError


def test_only_a_container_for_changes_is_copied() -> None:
    document: Any = {"a": {"l": [1]}}
    draft, target = Draft(document), parse_path({"path": "/a/l/0"}, "path")

    assert find_container(draft, target, "missing") is document["a"]["l"]
    owned = own_container(draft, target, "missing")
    assert owned == [1]
    assert owned is not document["a"]["l"]


@pytest.mark.parametrize("path", ["", "/a/x/0", "/a/l/7/0", "/a/l/0/0"])
def test_a_missing_container_is_the_given_error(path: str) -> None:
    draft = Draft({"a": {"l": [1]}})

    with pytest.raises(OperationError, match=r"^missing$"):
        find_container(draft, parse_path({"path": path}, "path"), "missing")


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
