"""Rules about a container, a pod and a workload; tests/conformance/workload_rules.yaml has the answers of kube-apiserver."""

from fleethook.workload_schema import check_workload
from tests.workload_rules import make_workload


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
