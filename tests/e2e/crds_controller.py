"""The controller for CRD tarballs as a process with a real apiserver, and its RBAC rules."""

import contextlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from schemas.definitions import FOREIGN_RESOURCES, custom_resource_definition
from tests.e2e.cluster import CRDS, Api, ControlPlane, is_established
from tests.e2e.fleet import grant, token
from tests.engines.crds.origin import Origin
from tests.engines.crds.tarballs import build, small
from tests.serving import started
from tests.waiting import NET, wait_for

KARMADAS = "/apis/operator.karmada.io/v1alpha1"
SYSTEM = "karmada-system"
ACCOUNT = "karmadas"
RULES: list[dict[str, Any]] = [
    {"apiGroups": ["operator.karmada.io"], "resources": ["karmadas"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["operator.karmada.io"], "resources": ["karmadas/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
]
"""The rights of the controller; the chart's role has the same."""


BODY = build(small())


class ControllerProcess(NamedTuple):
    """A running `fleethook crds controller`."""

    process: "subprocess.Popen[str]"
    port: int
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=NET) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def entry(self, origin: Origin) -> Path:
        """Return the directory of an origin's tarball in the cache of the process."""
        return self.log.parent / "data" / "cache" / TarballSource(origin.url).key

    def count(self, sample: str) -> float:
        """Return a sample of its metrics, 0 if there is none."""
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{sample} ")), 0.0)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=NET)


def prepare(plane: ControlPlane) -> Path:
    """Install the CRD, make the service account with its role, and return its kubeconfig."""
    admin = plane.api()
    for resource in FOREIGN_RESOURCES:
        definition = custom_resource_definition(resource)
        name = definition["metadata"]["name"]
        admin.apply(f"{CRDS}/{name}", definition)
        wait_for(lambda name=name: is_established(admin, name), what=f"{name} is established")
    admin.apply(f"/api/v1/namespaces/{SYSTEM}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SYSTEM}}
    admin.apply(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{ACCOUNT}", account)
    grant(admin, ACCOUNT, RULES, {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM})
    return plane.kubeconfig(ACCOUNT, {"token": token(admin, SYSTEM, ACCOUNT)})


@contextlib.contextmanager
def run_crds_controller(kubeconfig: Path, directory: Path, *arguments: str) -> Iterator[ControllerProcess]:
    """Start the controller, wait until it prints its port, and end it by its pid afterwards."""
    log = directory / "controller.log"
    command = [sys.executable, "-m", "fleethook", "crds", "--data-dir", str(directory / "data"), "controller"]
    command += ["--kubeconfig", str(kubeconfig), "--port", "0", "--lease-duration", "2", *arguments]
    with started(command, log, r"health: http://.*:(\d+)/") as (process, port):
        yield ControllerProcess(process, port, log)


class KarmadaInstance:
    """A ``Karmada`` object for a test."""

    def __init__(
        self, admin: Api, namespace: str, tarball: dict[str, Any] | None, *, name: str = "demo", **spec: Any
    ) -> None:
        self.admin, self.namespace, self.name = admin, namespace, name
        self.path = f"{KARMADAS}/namespaces/{namespace}/karmadas/{name}"
        given = {**spec, **({} if tarball is None else {"crdTarball": tarball})}
        self.admin.create(
            f"{KARMADAS}/namespaces/{namespace}/karmadas",
            {
                "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada",
                "metadata": {"name": name, "namespace": namespace}, "spec": given,
            },
        )  # fmt: skip

    @property
    def stored(self) -> Any:
        return self.admin[self.path]

    def change(self, **spec: Any) -> Any:
        return self.admin.merge(self.path, {"spec": spec})

    def conditions(self) -> dict[str, Any]:
        return {one["type"]: one for one in self.stored.get("status", {}).get("conditions", [])}

    def condition(self, type_: str) -> tuple[str, str, str]:
        found = self.conditions().get(type_)
        return ("", "", "") if found is None else (found["status"], found["reason"], found["message"])

    def has_condition(self, type_: str, status: str, reason: str) -> bool:
        return self.condition(type_)[:2] == (status, reason)

    def ready(self) -> bool:
        return self.has_condition("Ready", "True", "Completed")

    def remove(self) -> None:
        """Delete it, with its finalizers."""
        if not self.gone():
            self.admin.merge(self.path, {"metadata": {"finalizers": None}})
            self.admin.call("DELETE", self.path)

    def gone(self) -> bool:
        return self.admin.call("GET", self.path)[0] == 404

    def events(self) -> list[tuple[str, str, int]]:
        """Type, reason and count of each event about it."""
        listed = self.admin[f"/api/v1/namespaces/{self.namespace}/events"]["items"]
        about = [event for event in listed if event["involvedObject"]["name"] == self.name]
        return [(event["type"], event["reason"], event["count"]) for event in about]


class KarmadaFactory:
    """Creates instances in a namespace and deletes them at the end, so that the next process does not reconcile them."""

    def __init__(self, admin: Api, namespace: str) -> None:
        self._admin, self._namespace = admin, namespace
        self._made: list[KarmadaInstance] = []

    def __call__(self, tarball: dict[str, Any] | None, *, name: str = "demo", **spec: Any) -> KarmadaInstance:
        self._made.append(KarmadaInstance(self._admin, self._namespace, tarball, name=name, **spec))
        return self._made[-1]

    def remove_all(self) -> None:
        for instance in self._made:
            instance.remove()


def http(origin: Origin, **more: Any) -> dict[str, Any]:
    """The ``crdTarball`` that names an origin."""
    return {"httpSource": {"url": origin.url, **more}}
