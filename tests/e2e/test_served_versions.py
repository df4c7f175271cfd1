"""A kind whose served versions change on a real apiserver, as in an upgrade and a downgrade of OpenYurt."""

from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.cluster.kubernetes.resources import YURT_APP_SETS
from fleethook.model.openyurt import GROUP
from tests.builders import entry, yurt_app_set
from tests.e2e.cluster import CRDS, Api
from tests.e2e.installation import Installation
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.waiting import wait_for

DEFINITION = f"{CRDS}/{YURT_APP_SETS.name}"
ALPHA, BETA = "v1alpha1", "v1beta1"


class Definition:
    """The CustomResourceDefinition of YurtAppSets, whose versions a test changes."""

    def __init__(self, admin: Api, namespace: str) -> None:
        self._admin, self._namespace = admin, namespace
        (self._alpha,) = admin[DEFINITION]["spec"]["versions"]
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        self._beta = {"name": BETA, "schema": schema}
        self._made: list[str] = []

    def create(self, version: str, *names: str) -> None:
        for name in names:
            self._create(name, version)

    def _create(self, name: str, version: str) -> None:
        made = yurt_app_set(name)
        made["apiVersion"], made["metadata"] = f"{GROUP}/{version}", {"name": name}
        resource = YURT_APP_SETS._replace(version=version)
        wait_for(lambda: self._admin.call("POST", resource.in_namespace(self._namespace), made)[0] == 201)
        self._made.append(name)

    def add_beta(self) -> None:
        self._write({**self._alpha, "storage": False}, {**self._beta, "served": True, "storage": True})

    def withdraw_beta(self) -> None:
        self._write(self._alpha, {**self._beta, "served": False, "storage": False})

    def _write(self, *versions: dict[str, Any]) -> None:
        self._admin.merge(DEFINITION, {"spec": {"versions": versions}})

    def _delete(self, path: str) -> None:
        wait_for(lambda: self._admin.call("DELETE", path)[0] in (200, 404), what=f"{path} is deleted")

    def restore(self) -> None:
        # The apiserver could no longer read objects stored in v1beta1.
        self.withdraw_beta()
        alpha = YURT_APP_SETS._replace(version=ALPHA)
        for name in self._made:
            self._delete(alpha.in_namespace(self._namespace, name))
        self._admin.merge(f"{DEFINITION}/status", {"status": {"storedVersions": [ALPHA]}})
        self._write(self._alpha)
        wait_for(lambda: self._admin.call("GET", alpha.path)[0] == 200)


@pytest.fixture
def definition(crds: None, admin: Api, namespace: str) -> Iterator[Definition]:
    made = Definition(admin, namespace)
    try:
        yield made
    finally:
        made.restore()


def test_an_upgrade_and_a_downgrade_beside_a_running_server_revert_no_workload(
    installation: Installation, admin: Api, namespace: str, definition: Definition
) -> None:
    with installation.up():
        subject = Subject(admin, namespace, ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: subject.status().get("summary") == "1/1")
        before = subject.versions()
        definition.add_beta()
        # Its workload has an owner reference of v1alpha1, as after an upgrade of OpenYurt.
        wait_for(lambda: subject.condition("Rendered")[1] == "OwnedByOtherVersion", what="v1beta1 is read")
        assert subject.versions() == before
        definition.withdraw_beta()
        wait_for(lambda: subject.status().get("summary") == "1/1", what="v1alpha1 is read again")
        assert subject.versions() == before
        subject.override(entry("*", items=TO_3))
        wait_for(lambda: subject.images() == {"hangzhou": "nginx:3.0"})
