"""Tests of the parts of a template that all kinds of subjects share."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.value_marks import POOL_MARK
from fleethook.engines.overrider.template.pool_template import (
    members_of,
    seed,
    without_create_only,
    without_reserved,
    workload_prefix,
)
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import UID, yurt_app_set


def test_a_workload_starts_with_identity_owner_and_pool_label() -> None:
    subject = yurt_app_set()
    subject["metadata"]["annotations"] = {"kcp.io/cluster": "c1"}
    assert seed(YURT_APP_SET, subject, kind="Deployment", pool="hangzhou") == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "generateName": "demo-hangzhou-",
            "namespace": "default",
            "labels": {"apps.openyurt.io/pool-name": "hangzhou"},
            "annotations": {"kcp.io/cluster": "c1"},
            "ownerReferences": [
                {
                    "apiVersion": "apps.openyurt.io/v1alpha1",
                    "kind": "YurtAppSet",
                    "name": "demo",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {},
    }


def test_a_manifest_without_uid_and_namespace_gives_none_to_the_workload() -> None:
    subject = {**yurt_app_set(), "metadata": {"name": "demo"}}
    metadata = seed(YURT_APP_SET, subject, kind="StatefulSet", pool="a")["metadata"]
    assert sorted(metadata) == ["generateName", "labels", "ownerReferences"]
    assert "uid" not in metadata["ownerReferences"][0]


@pytest.mark.parametrize(
    ("pool", "prefix"), [("a", "demo-a-"), ("A_b", "demo-"), ("a" * 250, "demo-"), (POOL_MARK, f"demo-{POOL_MARK}-")]
)
def test_the_name_omits_a_pool_that_would_make_it_invalid(pool: str, prefix: str) -> None:
    assert workload_prefix("demo", pool) == prefix


def test_an_update_leaves_out_the_fields_that_only_a_creation_sets() -> None:
    named: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"replicas": 2, "selector": {}, "serviceName": "s", "template": {}},
    }
    assert without_create_only(named) == {"metadata": named["metadata"], "spec": {"template": {}}}


def test_null_members_are_absent_and_other_values_are_shared() -> None:
    inner = {"list": [{"a": 1}]}
    assert members_of({"x": None, "inner": inner, "y": [{"z": None}]}) == {"inner": inner, "y": [{}]}
    assert members_of(inner) is inner
    assert members_of("text") == {}


def test_annotations_of_fleethook_are_left_out() -> None:
    assert without_reserved({"fleethook.io/undo": "{}", "a": "b", "c": None}) == {"a": "b"}
