"""The rules of examples/policies on a real apiserver: the answers that tests/conformance/policy_libraries.yaml compares
with those of kopf and Kyverno."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.patch import diff
from tests.conformance.policy_libraries import PodCase, load_cases
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.conftest import new_namespace
from tests.e2e.test_hooks import serving_rules
from tests.serving import EXAMPLES
from tests.waiting import wait_for

CASES = load_cases()
DENIED = re.compile(r'admission webhook "(?P<webhook>[^"]*)" denied the request: (?P<message>.*)')
OF_THE_APISERVER = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "name")
"""Members of the metadata that differ between two creations."""


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module: the rules affect all Pods."""
    with control_plane(binaries, tmp_path_factory.mktemp("policy-libraries")) as running:
        yield running


class Pods:
    """Creates the recorded Pods in a namespace, and knows how kube-apiserver answers without webhooks."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        self._namespace = new_namespace(admin)
        self._unchanged = {case.name: self._post(case, dryRun="All")[1] for case in CASES}

    def create(self, case: PodCase, **query: str) -> dict[str, Any]:
        """Create a Pod and return the answer in the form of the file."""
        code, answer = self._post(case, **query)
        if code == 201:
            return {"code": code, "patch": diff(self._unchanged[case.name], answer)}
        denied = DENIED.fullmatch(answer["message"])
        return {"code": code, **(denied.groupdict() if denied else answer)}

    def wait_for_answer(self, case: PodCase, **query: str) -> None:
        """Create the Pod until the answer is the recorded one: a busy machine may exceed the timeout of a webhook."""

        def is_recorded() -> bool:
            assert self.create(case, **query) == case.answers["fleethook"]
            return True

        wait_for(is_recorded, what=case.name)

    def _post(self, case: PodCase, **query: str) -> tuple[int, Any]:
        metadata = {"labels": case.pod["metadata"].get("labels"), "generateName": "web-"}
        body = {**case.pod, "metadata": metadata}
        code, answer, _ = self._admin.call("POST", f"/api/v1/namespaces/{self._namespace}/pods", body, **query)
        for member in OF_THE_APISERVER:
            answer["metadata"].pop(member, None)
        return code, answer


def test_the_apiserver_gives_the_recorded_answers(plane: ControlPlane, tmp_path: Path) -> None:
    pods = Pods(plane.api())
    shutil.copy(EXAMPLES / "policies" / "rules.py", tmp_path)
    # One Pod for each rule shows that kube-apiserver knows its webhook.
    first_of_each = {case.answers["fleethook"].get("webhook"): case for case in reversed(CASES)}
    assert len(first_of_each) == 5
    with serving_rules(plane, tmp_path):
        for case in first_of_each.values():
            pods.wait_for_answer(case, dryRun="All")
        for case in CASES:
            pods.wait_for_answer(case)
