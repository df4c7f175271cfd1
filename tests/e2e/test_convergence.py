"""Inputs that once made fleethook write forever: the number of writes for each of them, one at a time.

``FLEETHOOK_MEASURE_SECONDS`` makes each input be watched for that long and prints writes a minute; without it, it is
watched until fleethook has handled another subject twice.
"""

import contextlib
import copy
import json
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.builders import container, entry, image, patch
from tests.e2e.audit import Audit
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import WEBHOOKS, run_registered_server
from tests.e2e.openyurt import V1_5, Form, V1Alpha1
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.scenario import BEIJING, Scenario, apply_node_pools, scenario
from tests.waiting import wait_for

MEASURED_SECONDS = float(os.environ.get("FLEETHOOK_MEASURE_SECONDS", "0"))
MAX_WRITES = 2
PODS = "/spec/template/spec"
TO_2 = entry("*", items=[image("nginx", "nginx:2.0")])


class Input(NamedTuple):
    """A template and the entry of its overrider.

    Attributes:
        pruned: The pointers that an apiserver drops, which the status must name.
    """

    pods: dict[str, Any]
    entry: dict[str, Any]
    spec: dict[str, Any] = {}  # noqa: RUF012 - never changed
    pruned: tuple[str, ...] = ()


def pods(fields: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"containers": [container(**(fields or {}))], **spec}


def build_entry(path: str, value: Any) -> dict[str, Any]:
    return entry("*", patches=[patch("add", path, value)])


MODE = {"name": "MODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
INPUTS = {
    "patch: hostPath without type": Input(
        pods(), build_entry(f"{PODS}/volumes", [{"name": "v", "hostPath": {"path": "/var/v"}}])
    ),
    "patch: container without defaults": Input(pods(), build_entry(f"{PODS}/containers/-", {"name": "side", "image": "s:1"})),
    "patch: port without protocol": Input(
        pods(), build_entry(f"{PODS}/containers/0/ports", [{"containerPort": 80}])
    ),
    "patch: fieldRef without apiVersion": Input(pods(), build_entry(f"{PODS}/containers/0/env", [MODE])),
    "patch: empty list": Input(pods(), build_entry(f"{PODS}/containers/0/args", [])),
    "patch: empty object": Input(pods(), build_entry(f"{PODS}/containers/0/securityContext", {"capabilities": {}})),
    "patch: empty map": Input(pods(), build_entry(f"{PODS}/nodeSelector", {})),
    "patch: zero": Input(pods(), build_entry("/spec/minReadySeconds", 0)),
    "patch: strategy.rollingUpdate alone": Input(pods(), build_entry("/spec/strategy", {"rollingUpdate": {"maxSurge": 1}})),
    "patch: empty strategy": Input(pods(), build_entry("/spec/strategy", {})),
    "patch: quantity in other words": Input(
        pods(), build_entry(f"{PODS}/containers/0/resources", {"requests": {"cpu": "0.5"}})
    ),
    "template: hostNetwork false": Input(pods(hostNetwork=False), TO_2),
    "template: tty false": Input(pods({"tty": False}), TO_2),
    "template: env with an empty value": Input(pods({"env": [{"name": "EMPTY", "value": ""}]}), TO_2),
    "template: port without protocol": Input(pods({"ports": [{"containerPort": 80}]}), TO_2),
    "template: fieldRef without apiVersion": Input(pods({"env": [MODE]}), TO_2),
    "template: empty lists, maps and objects": Input(
        pods({"args": [], "env": [], "resources": {}}, nodeSelector={}, tolerations=[], securityContext={}), TO_2
    ),
    "template: zeros": Input(pods({"livenessProbe": {"tcpSocket": {"port": 1}, "timeoutSeconds": 0}}), TO_2, {"minReadySeconds": 0}),
    "template: strategy.rollingUpdate alone": Input(pods(), TO_2, {"strategy": {"rollingUpdate": {"maxSurge": 1}}}),
    "patch: misspelt field": Input(
        pods(), build_entry(f"{PODS}/hostNetwrok", True), pruned=(f"{PODS}/hostNetwrok",)
    ),
    "patch: misspelt field of a container": Input(
        pods(), build_entry(f"{PODS}/containers/0/imagePulPolicy", "Always"), pruned=("/imagePulPolicy",)
    ),
    "template: misspelt field": Input(pods(hostNetwrok=True), TO_2, pruned=(f"{PODS}/hostNetwrok",)),
}  # fmt: skip


class Written(NamedTuple):
    """The number of writes of an input's workload, and the final status."""

    writes: int
    late_writes: int
    status: dict[str, Any]
    generations: tuple[int, int]
    per_minute: float


def name_of(label: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in label.lower())[:40].strip("-")


class Bench:
    """Inputs on an apiserver, one at a time."""

    def __init__(self, demo: Scenario) -> None:
        self._demo = demo

    def create(self, label: str) -> None:
        given, name = INPUTS[label], name_of(label)
        made = self._demo.subject(name, copy.deepcopy(given.pods), BEIJING)
        self._demo.form.templates(made)["deploymentTemplate"]["spec"] |= given.spec
        self._demo.api.create(self._demo.form.path(self._demo.namespace), made)
        wait_for(lambda: self._demo.controller.has_settled(name), what="OpenYurt's controller creates the workload")

    def override(self, label: str) -> None:
        self._demo.override(INPUTS[label].entry, name=name_of(label))

    def watch(self, label: str, audit: Audit) -> Written:
        """Wait until the overrider is observed, and then until another subject was handled twice."""
        name = name_of(label)
        started, former = time.monotonic(), self._writes(name, audit)
        with contextlib.suppress(AssertionError):  # The final status is asserted.
            wait_for(lambda: self._reported(label), what=f"the status of {name} is final")
        self._demo.handle_sentinel()
        before, early = self._demo.workloads(name)[BEIJING], self._writes(name, audit)
        self._demo.handle_sentinel()
        self._demo.handle_sentinel()
        while time.monotonic() < started + MEASURED_SECONDS:
            time.sleep(0.1)
        elapsed, writes = time.monotonic() - started, self._writes(name, audit)
        after = self._demo.workloads(name)[BEIJING]
        generations = (before["metadata"]["generation"], after["metadata"]["generation"])
        return Written(writes, writes - early, self._demo.status(name), generations, (writes - former) * 60 / elapsed)

    def pruned(self, label: str) -> tuple[str, ...]:
        """Return the members that the status must name, without those that OpenYurt's typed client drops itself."""
        of_v1beta1 = isinstance(self._demo.form, V1Beta1)
        return () if of_v1beta1 and label.startswith("template") else INPUTS[label].pruned

    def _reported(self, label: str) -> bool:
        """Return whether the status reports complete rendering, or names the members that the apiserver dropped."""
        text = json.dumps(self._demo.status(name_of(label)))
        if pointers := self.pruned(label):
            return all(pointer in text for pointer in pointers)
        return self._demo.rendered(name_of(label))

    def _writes(self, name: str, audit: Audit) -> int:
        workload = self._demo.workloads(name)[BEIJING]["metadata"]["name"]
        return audit.counts(self._demo.namespace)[workload]


@pytest.fixture(scope="module", params=[V1Alpha1(), V1Beta1()], ids=["v1alpha1", "v1beta1"])
def form(request: pytest.FixtureRequest) -> Form:
    found: Form = request.param
    return found


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, form: Form) -> ControlPlane:
    """A control plane with the definitions of that version; for v1beta1, OpenYurt's own."""
    found: ControlPlane = request.getfixturevalue("openyurt_plane" if form.node_pools_path else "plane")
    if form.node_pools_path:
        apply_node_pools(found.api(), form, **{BEIJING: {}})
    else:
        request.getfixturevalue("crds")
    return found


@pytest.fixture(scope="module")
def demo(cluster: ControlPlane, form: Form, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    serving = run_registered_server(cluster, tmp_path_factory.mktemp("convergence"))
    with serving, scenario(cluster.api(), release=V1_5, form=form) as made:
        made.start_sentinel()
        yield made


def check(label: str, written: Written) -> None:
    """Print the figures of an input, for reports, and assert the limits."""
    print(f"\n{label}: {written.writes} writes, {written.per_minute:.0f} a minute; {written.status.get('summary')}")  # noqa: T201
    assert written.writes <= MAX_WRITES
    assert written.late_writes == 0
    assert written.generations[0] == written.generations[1]


@pytest.mark.parametrize("label", [label for label, one in INPUTS.items() if not one.pruned])
def test_a_value_stored_in_another_form_counts_as_rendered(cluster: ControlPlane, demo: Scenario, label: str) -> None:
    bench = Bench(demo)
    bench.create(label)
    audit = Audit(cluster)
    bench.override(label)
    try:
        written = bench.watch(label, audit)
    finally:
        demo.remove(name_of(label))
    check(label, written)
    assert [one["reason"] for one in written.status["conditions"] if one["type"] == "Rendered"] == ["AllRendered"]


@contextlib.contextmanager
def disable_validation(api: Api) -> Iterator[None]:
    """Disable the validation of overriders, as for one that is older than fleethook."""
    path = f"{WEBHOOKS}/validatingwebhookconfigurations"
    kept = api[f"{path}/fleethook"]
    api.delete(f"{path}/fleethook")
    try:
        yield
    finally:
        members = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
        metadata = {name: value for name, value in kept["metadata"].items() if name not in members}
        api.create(path, {**kept, "metadata": metadata})


@pytest.fixture(scope="module")
def pruned(cluster: ControlPlane, demo: Scenario) -> Iterator[dict[str, Written]]:
    """Members that an apiserver drops; fleethook refuses them in an overrider."""
    bench, labels = Bench(demo), [label for label, one in INPUTS.items() if one.pruned]
    for label in labels:
        bench.create(label)
    audit = Audit(cluster)
    with disable_validation(cluster.api()):
        for label in labels:
            # An apiserver learns of a removed webhook with some delay.
            wait_for(lambda label=label: bench.override(label) or True, what="the overrider is admitted")
    try:
        yield {label: bench.watch(label, audit) for label in labels}
    finally:
        for label in labels:
            demo.remove(name_of(label))


@pytest.mark.parametrize("label", [label for label, one in INPUTS.items() if one.pruned])
def test_pruned_members_are_named_in_the_status(pruned: dict[str, Written], demo: Scenario, label: str) -> None:
    check(label, pruned[label])
    pointers = Bench(demo).pruned(label)
    for pointer in pointers:
        assert pointer in json.dumps(pruned[label].status)
    assert (pruned[label].status["summary"] == "1/1") == (not pointers)
