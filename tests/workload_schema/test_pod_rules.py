"""Rules about a container, a pod and a workload; tests/conformance/workload_rules.yaml has the answers of kube-apiserver."""

from typing import Any

import pytest

from fleethook.workload_schema import check_workload
from fleethook.workload_schema.pod_rules import NEEDS, POD_RULES, READS
from fleethook.workload_schema.struct_rules import STRUCT_RULES, Rule
from tests.workload_rules import load_rows, make_workload
from tests.workload_samples import full_deployment


def keep_members(node: Any, names: frozenset[str]) -> Any:
    """An object without other members than these, and those of its pod template."""
    return {
        name: value if name in names else keep_members(value, names)
        for name, value in node.items()
        if name in {*names, "template", "spec"}
    }


@pytest.mark.parametrize("rule", READS, ids=lambda rule: rule.__name__)
def test_a_rule_reads_only_the_members_that_it_names(rule: Rule) -> None:
    rows = [*POD_RULES.items(), *STRUCT_RULES.items()]
    (struct,) = [struct for struct, rules in rows if rule in rules and struct != "apps.v1.StatefulSetSpec"]
    found = []
    for workload in (full_deployment(), *map(make_workload, (*load_rows("refused"), *load_rows("accepted")))):
        read: Any = workload["spec"]
        if struct.startswith("core"):
            read = read["template"]["spec"]
        if struct == "core.v1.PodSecurityContext":
            read = read.get("securityContext") or {}
        wanted = list(rule(read))
        assert list(rule(keep_members(read, READS[rule]))) == wanted
        found += wanted
    assert found


@pytest.mark.parametrize("rule", NEEDS, ids=lambda rule: rule.__name__)
def test_a_rule_finds_nothing_without_the_member_that_it_needs(rule: Rule) -> None:
    for workload in map(make_workload, (*load_rows("refused"), *load_rows("accepted"))):
        pod = workload["spec"]["template"]["spec"]
        assert not any(rule({name: value for name, value in pod.items() if name != NEEDS[rule]}))


@pytest.mark.parametrize(
    ("surge", "unavailable", "refused"),
    [(0, 0, True), ("0%", 0, True), ("00%", "0%", True), (0, 1, False), (None, 0, False), (0, None, False)],
)
def test_one_of_surge_and_unavailability_is_above_0(surge: object, unavailable: object, refused: bool) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    found = check_workload(make_workload({"set": {"/spec/strategy": {"rollingUpdate": rolling}}}), "Deployment")
    assert [one.pointer for one in found] == ["/spec/strategy/rollingUpdate/maxUnavailable"] * refused


def test_a_mount_without_a_volume_names_the_volumes() -> None:
    row = {"set": {"$pod/volumes": [{"name": "data"}], "$app/volumeMounts": [{"name": "dta", "mountPath": "/d"}]}}
    (found,) = check_workload(make_workload(row), "Deployment")
    assert found.message == 'the pod has no volume "dta"; there are data'


def test_the_same_volume_may_be_missing_in_several_containers() -> None:
    mounts = [{"name": "d", "mountPath": "/d"}]
    row = {
        "set": {
            "$app/volumeMounts": mounts,
            "$pod/initContainers": [{"name": "i", "image": "i", "volumeMounts": mounts}],
        }
    }
    found = check_workload(make_workload(row), "Deployment")
    assert [one.pointer.split("/")[4] for one in found] == ["containers", "initContainers"]
