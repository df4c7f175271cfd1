"""Tests of the arguments and the output of `fleethook policies`; tests/e2e/test_policy_removal.py has a real apiserver."""

from pathlib import Path

import pytest

from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.engines.overrider.commands.policies import _print
from fleethook.engines.overrider.policies.policy_client import AppliedObject, Removal
from tests.cli.commands import invoke

BASE = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def test_exactly_one_cluster_is_needed(tmp_path: Path) -> None:
    result = invoke(["policies", "remove"], env={"KUBECONFIG": str(tmp_path)})
    assert (result.exit_code, "give one of --kubeconfig, --context and --in-cluster" in result.stderr) == (2, True)


def test_a_cluster_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],'
        '"clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],'
        '"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}'
    )
    result = invoke(["policies", "remove", "--kubeconfig", str(config)])
    assert (result.exit_code, "cannot remove the policies: " in result.stderr) == (2, True)


def test_the_output_names_subjects_and_objects(capsys: pytest.CaptureFixture[str]) -> None:
    _print(Removal((SubjectName("n", "YurtAppSet", "demo"),), (AppliedObject(f"{BASE}/p", "u-1", "n/rule"),), ()))
    assert capsys.readouterr().out.splitlines() == [
        "the webhook renders the workloads of YurtAppSet n/demo",
        "deleted mutatingadmissionpolicies/p of YurtAppOverrider n/rule",
    ]


def test_policies_that_a_leader_applies_again_are_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        _print(Removal((), (), (AppliedObject(f"{BASE}/p", "u-1"),)))
    assert caught.value.code == 1
    assert "controller.overriderMode" in capsys.readouterr().err
