"""The base of overriders for a YurtAppSet v1beta1, against the workloads of OpenYurt's own controller."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.overrider.plan.plan_and_digest import kind_of
from fleethook.engines.overrider.plan.plan_cache import SubjectPlans
from fleethook.engines.overrider.subject.subject_and_pools import pools_of_subject
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.openyurt import REVISION_LABEL, YURT_APP_SET
from fleethook.workload_schema import decode_workload
from fleethook.workload_schema.go_structs import print_workload
from tests.builders import compile_plan, store_of

CASES = json.loads(gzip.decompress((Path(__file__).parent / "openyurt" / "v1beta1.json.gz").read_bytes()))["cases"]
# Not derivable from a subject alone: these answers depend on an existing workload, or have no workload.
APART = {
    "both-templates": "OpenYurt's webhook refuses it, and its controller takes the StatefulSet",
    "deployment-update-remove-foreign": "the patch removes an annotation that only the existing workload has",
    "statefulset-update-remove-foreign": "as above",
}
WRITTEN = [case for case in CASES if "workload" in case and case["id"] not in APART]
# Upstream's controller panics or fails for a reason outside the subject.
ELSEWHERE = ("panic:", "nodepools.apps.openyurt.io", "Object default/")
REFUSED = [case for case in CASES if "error" in case and not case["error"].startswith(ELSEWHERE)]


def bare(case: dict[str, Any]) -> dict[str, Any]:
    (kind,) = workload_kinds(case["subject"])
    node_pool = next((one for one in case["nodePools"] if one["metadata"]["name"] == case["pool"]), None)
    plan = compile_plan(YURT_APP_SET, case["subject"], None, kind=kind, pool=case["pool"], node_pool=node_pool)
    shared = SubjectPlans(YURT_APP_SET, case["subject"], None)
    if case["pool"] in case["pools"]:
        assert shared.plan(kind, case["pool"], node_pool).full.create.bare == plan.create.bare, (
            "a shared plan is the pool's own"
        )
    return plan.create.bare


def written(case: dict[str, Any]) -> dict[str, Any]:
    """Return the workload as an apiserver stores it before it adds defaults, without the revision."""
    (kind,) = workload_kinds(case["subject"])
    made = {"apiVersion": "apps/v1", "kind": kind, **copy.deepcopy(case["workload"])}
    del made["status"]
    stored = decode_workload(made, kind_of(made))
    del stored["metadata"]["labels"][REVISION_LABEL]
    del stored["spec"]["template"]["metadata"]["labels"][REVISION_LABEL]
    return stored


@pytest.mark.parametrize("case", [case for case in CASES if "poolError" not in case], ids=lambda case: case["id"])
def test_node_pools_are_those_that_upstream_selects(case: dict[str, Any]) -> None:
    store = store_of(case["subject"], *case["nodePools"])
    assert pools_of_subject(YURT_APP_SET, case["subject"], cluster="", store=store) == case["pools"]


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case["id"])
def test_the_base_equals_upstreams_workload(case: dict[str, Any]) -> None:
    expected, made = written(case), bare(case)
    # Both are printed as by Go: an empty struct without omitempty is no difference.
    assert print_workload(made, made["kind"])["spec"] == print_workload(expected, made["kind"])["spec"]
    existing = (case["existing"] or {}).get("metadata", {})
    for name in ("labels", "annotations"):
        ours, theirs = made["metadata"].get(name, {}), expected["metadata"].get(name, {})
        foreign = {key: value for key, value in existing.get(name, {}).items() if key not in ours}
        foreign.pop(REVISION_LABEL, None)
        assert {**foreign, **ours} == theirs
    assert made["metadata"]["generateName"] == expected["metadata"]["generateName"]
    if not existing and "ownerReferences" in expected["metadata"]:  # One case patches them away.
        assert made["metadata"]["ownerReferences"] == expected["metadata"]["ownerReferences"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_a_workload_that_upstream_cannot_make_has_no_base(case: dict[str, Any]) -> None:
    if not workload_kinds(case["subject"]):
        return
    with pytest.raises(SubjectError):
        bare(case)
