"""Rules about a container, a pod and a workload; tests/conformance/workload_rules.yaml has the answers of kube-apiserver."""

import pytest

from fleethook.workload_schema import check_workload
from tests.workload_rules import make_workload


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
