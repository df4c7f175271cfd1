"""Tests of the texts of errors of patches."""

import pytest

from fleethook.patch.patch_errors import PatchError, StrategicMergeError


def test_an_error_names_its_operation_or_the_patch() -> None:
    error = PatchError("no member", index=2, op="remove", path="/a")
    assert str(error) == "operation 2 (remove /a): no member"
    assert (error.index, error.op, error.path, error.reason) == (2, "remove", "/a", "no member")
    assert str(PatchError("is no list")) == "patch: is no list"


@pytest.mark.parametrize(("path", "text"), [("/a/b", "/a/b: no list"), ("", "/: no list")])
def test_an_error_of_a_merge_starts_with_its_pointer(path: str, text: str) -> None:
    error = StrategicMergeError(path, "no list")
    assert (str(error), error.path, error.reason) == (text, path, "no list")
