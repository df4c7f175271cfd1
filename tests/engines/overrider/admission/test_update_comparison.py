"""Tests of the comparison of both objects of an update by their text."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.admission.update_comparison import (
    UNKNOWN_CHANGE,
    WorkloadChange,
    changes_overrider,
    compare_workload,
    stored_members,
)
from fleethook.model.openyurt import POOL_PATCH_ANNOTATION, REVISION_LABEL
from tests.builders import entry, overrider, request, workload

OLD = workload()
RULE = overrider(entry("hangzhou"))


def edited(document: dict[str, Any], *path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    parent = made
    for name in path[:-1]:
        parent = parent[name]
    parent[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("spec", "replicas"), 9, WorkloadChange(spec=True, revision=False)),
        (("metadata", "labels", REVISION_LABEL), "demo-2", WorkloadChange(spec=False, revision=True)),
        (("metadata", "annotations"), {POOL_PATCH_ANNOTATION: "{}"}, WorkloadChange(spec=False, revision=True)),
        (("metadata", "labels", "team"), "a", WorkloadChange(spec=False, revision=False)),
        (("metadata", "annotations", "note"), "a", WorkloadChange(spec=False, revision=False)),
        (("status",), {"replicas": 1}, WorkloadChange(spec=False, revision=False)),
    ],
)
def test_a_workload_changes_with_its_spec_or_its_revision(
    path: tuple[str, ...], value: Any, expected: WorkloadChange
) -> None:
    assert compare_workload(request(edited(OLD, *path, value=value), "UPDATE", OLD)) == expected


def test_only_members_with_another_text_may_have_changed() -> None:
    assert stored_members(request(OLD, "UPDATE", OLD)) == {}
    assert stored_members(request(edited(OLD, "spec", "replicas", value=9), "UPDATE", OLD)) == {"spec": OLD["spec"]}
    made = edited(OLD, "metadata", "name", value="a")
    assert stored_members(request(made, "UPDATE", OLD)) == {"metadata": OLD["metadata"]}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("entries",), [entry("beijing")], True),
        (("subject", "name"), "other", True),
        (("metadata", "labels"), {"team": "a"}, False),
        (("status",), {"summary": "1/1"}, False),
    ],
)
def test_an_overrider_changes_with_its_subject_or_its_entries(
    path: tuple[str, ...], value: Any, *, expected: bool
) -> None:
    assert changes_overrider(request(edited(RULE, *path, value=value), "UPDATE", RULE)) is expected


def test_objects_of_another_shape_count_as_changed() -> None:
    made = request(edited(OLD, "metadata", "labels", value=[]), "UPDATE", OLD)
    assert compare_workload(made) == UNKNOWN_CHANGE
    assert changes_overrider(request(RULE, "UPDATE", ["overrider"]))
    assert stored_members(request(OLD, "UPDATE", [])) == {}
