"""Tests of the workloads that show whether a policy acts; tests/e2e/test_policy_modes.py sends them to a real apiserver."""

import pytest

from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.compiler import build_probes, compile_overrider
from fleethook.engines.overrider.policies.mode import is_probe
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    entry,
    image,
    is_unchanged,
    node_pool,
    overrider,
    pool,
    review,
    yurt_app_set,
    yurt_app_set_v1beta1,
)

POOLS = ("beijing", "hangzhou")
SUBJECT = yurt_app_set(pools=[pool(one) for one in POOLS])
SUBJECT["metadata"] |= {"uid": "u-1", "namespace": "default"}
RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]), uid="u-2")


def test_a_probe_is_a_workload_of_a_selected_pool_with_the_hash_of_its_plan() -> None:
    pools = dict.fromkeys(POOLS)
    found = compile_overrider(YURT_APP_SET, SUBJECT, RULE, pools=pools)
    (probe,) = build_probes(found.objects, group_kind=YURT_APP_SET, subject=SUBJECT, overrider=RULE, pools=pools)
    assert probe.plural == "deployments"
    assert probe.workload["metadata"]["labels"] == {"app": "demo", "apps.openyurt.io/pool-name": "hangzhou"}
    assert probe.workload["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert probe.digest == SubjectPlans(YURT_APP_SET, SUBJECT, RULE).plan("Deployment", "hangzhou", None).digest
    assert is_probe(probe.workload["metadata"])


def test_a_probe_of_v1beta1_has_the_label_of_its_subject() -> None:
    subject = yurt_app_set_v1beta1("demo", POOLS)
    subject["metadata"] |= {"uid": "u-1", "namespace": "default"}
    rule = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
    pools = {name: node_pool(name) for name in POOLS}
    found = compile_overrider(YURT_APP_SET, subject, rule, pools=pools)
    (probe,) = build_probes(found.objects, group_kind=YURT_APP_SET, subject=subject, overrider=rule, pools=pools)
    assert probe.workload["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"] == "demo"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [({}, False), (None, False), ({"fleethook.io/rendered": "other"}, False)]
    + [({"fleethook.io/rendered": f"h{suffix}"}, True) for suffix in ("", "-partial")],
)
def test_a_policy_acts_if_it_sets_its_hash(annotations: dict[str, str] | None, expected: bool) -> None:
    pools = dict.fromkeys(POOLS)
    found = compile_overrider(YURT_APP_SET, SUBJECT, RULE, pools=pools)
    (probe,) = build_probes(found.objects, group_kind=YURT_APP_SET, subject=SUBJECT, overrider=RULE, pools=pools)
    probe = probe._replace(digest="h")
    assert probe.is_rendered({"metadata": {"annotations": annotations}}) is expected


def test_the_webhook_leaves_a_probe_alone_only_in_a_dry_run() -> None:
    pools = dict.fromkeys(POOLS)
    found = compile_overrider(YURT_APP_SET, SUBJECT, RULE, pools=pools)
    (probe,) = build_probes(found.objects, group_kind=YURT_APP_SET, subject=SUBJECT, overrider=RULE, pools=pools)
    assert is_unchanged(review(probe.workload, SUBJECT, RULE, dryRun=True))
    assert not is_unchanged(review(probe.workload, SUBJECT, RULE))
