"""The rules of docs/explanation/policy-libraries.md in fleethook and in kopf on a real apiserver: the answers of
tests/conformance/policy_libraries.yaml, which has those of Kyverno, too."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest

from fleethook.patch import diff
from tests.conformance.policy_libraries import PodCase, UpdateCase, load_cases, load_updates
from tests.documentation.test_policy_libraries import SOURCES
from tests.e2e.cluster import Api, ControlPlane, control_plane, free_port
from tests.e2e.conftest import new_namespace
from tests.e2e.test_rules import MUTATING, VALIDATING, serving_rules
from tests.waiting import NET, wait_for

CASES: Final = load_cases()
UPDATES: Final = load_updates()
DENIED: Final = re.compile(r'admission webhook "(?P<webhook>[^"]*)" denied the request: (?P<message>.*)')
OF_THE_APISERVER: Final = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "name")
"""Members of the metadata that differ between two creations."""


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module: the rules affect all Pods."""
    with control_plane(binaries, tmp_path_factory.mktemp("policy-libraries")) as running:
        yield running


@pytest.fixture
def admin(plane: ControlPlane) -> Iterator[Api]:
    """A client; afterwards, no tool is registered."""
    found = plane.api()
    yield found
    for collection in (MUTATING, VALIDATING):
        found.delete(collection)


class Pods:
    """Creates and changes the recorded Pods in a namespace, and knows how kube-apiserver answers without webhooks."""

    def __init__(self, admin: Api, tool: str) -> None:
        self._admin = admin
        self._tool = tool
        self._path = f"/api/v1/namespaces/{new_namespace(admin)}/pods"
        # kube-apiserver may still ask the webhooks of another test.
        self._unchanged = {case.name: wait_for(lambda case=case: self._create_unchanged(case)) for case in CASES}
        self._stored = {case.name: self._store(case) for case in UPDATES}

    def create(self, case: PodCase, **query: str) -> dict[str, Any]:
        """Create a Pod and return the answer in the form of the file."""
        code, answer = self._post(case, **query)
        return {"code": code, "patch": diff(self._unchanged[case.name], answer)} if code == 201 else read(code, answer)

    def change(self, case: UpdateCase) -> dict[str, Any]:
        """Change a stored Pod and return the answer in the form of the file."""
        path = f"{self._path}/{self._stored[case.name]}/{case.subresource}".rstrip("/")
        code, answer, _ = self._admin.call("PATCH", path, case.change, content_type="application/merge-patch+json")
        return read(code, answer)

    def wait_for_answer(self, case: PodCase | UpdateCase, **query: str) -> None:
        """Send the request until the answer is the recorded one: a busy machine may exceed the timeout of a webhook."""

        def is_recorded() -> bool:
            found = self.create(case, **query) if isinstance(case, PodCase) else self.change(case)
            assert found == case.answers[self._tool]
            return True

        wait_for(is_recorded, what=case.name)

    def _create_unchanged(self, case: PodCase) -> Any:
        code, answer = self._post(case, dryRun="All")
        return answer if code == 201 else None

    def _store(self, case: UpdateCase) -> str:
        metadata = {**case.stored["metadata"], "name": None, "generateName": "web-"}
        name: str = self._admin.create(self._path, {**case.stored, "metadata": metadata})["metadata"]["name"]
        if case.is_deleted:
            self._admin.delete(f"{self._path}/{name}")
        return name

    def _post(self, case: PodCase, **query: str) -> tuple[int, Any]:
        metadata = {"labels": case.pod["metadata"].get("labels"), "generateName": "web-"}
        code, answer, _ = self._admin.call("POST", self._path, {**case.pod, "metadata": metadata}, **query)
        for member in OF_THE_APISERVER:
            answer["metadata"].pop(member, None)
        return code, answer


def read(code: int, answer: Any) -> dict[str, Any]:
    """Return an answer without a patch in the form of the file."""
    denied = DENIED.fullmatch(answer.get("message", ""))
    return {"code": code, **(denied.groupdict() if denied else {} if code == 200 else answer)}


@contextlib.contextmanager
def running_fleethook(plane: ControlPlane, directory: Path) -> Iterator[None]:
    (directory / "rules.py").write_text(SOURCES["fleethook"])
    with serving_rules(plane, directory):
        yield


@contextlib.contextmanager
def running_kopf(plane: ControlPlane, directory: Path) -> Iterator[None]:
    pair = plane.authority.issue("kopf", addresses=("127.0.0.1",))
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": plane.authority.certificate}
    for name, path in files.items():
        shutil.copy(path, directory / name)
    (directory / "kopf_rules.py").write_text(SOURCES["kopf"].replace("port=9443", f"port={free_port()}"))
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", "kopf_rules.py"]
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig("admin"))}
    with (
        (directory / "kopf.log").open("wb") as log,
        subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(NET)


RUNNING: Final[dict[str, Callable[[ControlPlane, Path], AbstractContextManager[None]]]] = {
    "fleethook": running_fleethook,
    "kopf": running_kopf,
}


@pytest.mark.parametrize("tool", RUNNING)
def test_the_apiserver_gives_the_recorded_answers(plane: ControlPlane, admin: Api, tmp_path: Path, tool: str) -> None:
    pods = Pods(admin, tool)
    # One request for each rule shows that kube-apiserver knows its webhook.
    first_of_each = {case.answers[tool].get("webhook"): case for case in reversed((*CASES, *UPDATES))}
    # A rule for Pods is one webhook for their subresources, too.
    assert len(first_of_each) == {"fleethook": 5, "kopf": 7}[tool]
    with RUNNING[tool](plane, tmp_path):
        for case in first_of_each.values():
            pods.wait_for_answer(case, dryRun="All")
        for case in (*CASES, *UPDATES):
            pods.wait_for_answer(case)
