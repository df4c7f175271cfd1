"""Rules about containers and volumes; tests/conformance/workload_rules.yaml has the answers of kube-apiserver."""

import pytest

from fleethook.workload_schema import check_workload
from fleethook.workload_schema.container_and_volume_rules import DISCRIMINATED, load_choices
from fleethook.workload_schema.go_structs import load_structs
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


@pytest.mark.parametrize("struct", load_choices())
def test_members_of_choices_exist(struct: str) -> None:
    choice, members = load_choices()[struct], load_structs()[struct].keys()
    assert len(choice.members) > 1
    assert choice.members <= members


@pytest.mark.parametrize("struct", DISCRIMINATED)
def test_discriminated_members_exist(struct: str) -> None:
    found = DISCRIMINATED[struct]
    assert {found.discriminator, found.member} <= load_structs()[struct].keys()


def test_every_source_of_a_volume_is_a_choice() -> None:
    """A source that a later version of the API adds joins the choice."""
    chosen = load_choices()["core.v1.Volume"].members
    assert {"configMap", "emptyDir", "hostPath", "projected", "image"} <= chosen
    assert "name" not in chosen
