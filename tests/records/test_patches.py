"""Patches in records: base64 text in the record, operations while it is redacted."""

import base64
from typing import Any

import pytest

from app.records.patches import Patch, close_patches, open_patches
from tests.records.builders import from_patch, to_base64, to_patch

OPERATION = {"op": "add", "path": "/data", "value": {"a": [1, None]}}


def test_patches_at_any_depth_become_operations() -> None:
    found = open_patches([{"response": {"patch": to_patch(OPERATION), "allowed": True}}])
    assert found == [{"response": {"patch": [OPERATION], "allowed": True}}]
    assert isinstance(found[0]["response"]["patch"], Patch)


def test_only_members_named_patch_are_opened() -> None:
    document = {"value": to_patch(OPERATION), "patches": [to_patch(OPERATION)]}
    assert open_patches(document) == document


def test_base64_with_line_breaks_is_a_patch() -> None:
    text = to_patch(OPERATION)
    assert open_patches({"patch": f"{text[:8]}\n{text[8:]}\n"}) == {"patch": [OPERATION]}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "no base64!",
        to_base64("{no JSON"),
        to_base64('{"op": "add"}'),
        to_base64("null"),
        to_base64(b"\xff"),
        None,
        7,
    ],
)
def test_other_values_stay_as_they_are(value: Any) -> None:
    found = open_patches({"patch": value})
    assert found == {"patch": value}
    assert close_patches(found) == {"patch": value}


def test_a_patch_inside_an_object_named_patch_is_opened() -> None:
    assert open_patches({"patch": {"patch": to_patch(OPERATION)}}) == {"patch": {"patch": [OPERATION]}}


def test_closing_writes_changed_operations_and_keeps_plain_lists() -> None:
    document = {"patch": to_patch(OPERATION), "list": [OPERATION]}
    opened = open_patches(document)
    opened["patch"][0]["value"] = "x"
    closed = close_patches([opened])[0]
    assert from_patch(closed["patch"]) == [{**OPERATION, "value": "x"}]
    assert closed["list"] == [OPERATION]
    assert base64.b64decode(document["patch"]) == base64.b64decode(to_patch(OPERATION)), "the original stays"


def test_a_document_that_is_nested_too_deeply_is_refused() -> None:
    document: Any = None
    for _ in range(199):
        document = [document]
    assert open_patches([document]) == [document]
    with pytest.raises(RecursionError):
        open_patches([[document]])
