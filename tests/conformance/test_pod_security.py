"""The example of the Pod Security Standards decides as kube-apiserver does about the fixtures of Kubernetes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.admission.decorators_and_files import load_rules
from tests.serving import EXAMPLES

CASES = yaml.safe_load(Path(__file__).with_name("pod_security.yaml").read_text())["cases"]
RULES = load_rules([EXAMPLES / "rules" / "pod_security.py"])
OF_CHECK = {
    "allowprivilegeescalation": "privilege-escalation",
    "apparmorprofile": "apparmor-profile",
    "capabilities_baseline": "added-capabilities",
    "capabilities_restricted": "dropped-capabilities",
    "hostnamespaces": "host-namespaces",
    "hostpathvolumes": "host-path-volumes",
    "hostports": "host-ports",
    "hostprobesandhostlifecycle": "probed-hosts",
    "privileged": "privileged",
    "procmount": "proc-mount",
    "procmount_restricted": "proc-mount-always",
    "restrictedvolumes": "volume-types",
    "runasnonroot": "run-as-non-root",
    "runasuser": "run-as-user",
    "seccompprofile_baseline": "seccomp-profile",
    "seccompprofile_restricted": "needs-seccomp-profile",
    "selinuxoptions": "selinux-options",
    "sysctls": "sysctls",
    "windowshostprocess": "host-processes",
}
"""The rule for each check of Kubernetes, by the name of its fixtures without their number."""


def list_refusing(pod: dict[str, Any], level: str) -> list[str]:
    made = {"apiVersion": "v1", "kind": "Pod", **pod}
    made["metadata"] = {"name": "web", "namespace": "shop", **pod.get("metadata", {})}
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    return [rule.name for rule in RULES if not rule.review(made, namespace_labels=labels).allowed]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_verdicts_are_those_of_kubernetes(case: dict[str, Any]) -> None:
    refusing = list_refusing(case["pod"], case["level"])
    assert bool(refusing) is not case["passes"], refusing
    if not case["passes"]:
        check = Path(case["file"]).stem.rstrip("0123456789")
        assert OF_CHECK[check] in refusing
    assert not list_refusing(case["pod"], ""), "a namespace without the label"


def test_each_rule_refuses_a_fixture() -> None:
    refusing = {name for case in CASES if not case["passes"] for name in list_refusing(case["pod"], case["level"])}
    assert refusing == {rule.name for rule in RULES} == set(OF_CHECK.values())
