"""Inputs that once made fleethook write forever: at most two writes for each of them, then none, and a correct status.

tests/e2e/test_undo_cases.py compares the drift of each field; here the controller runs beside OpenYurt's.
"""

import contextlib
import copy
import json
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.builders import container, entry, image, patch
from tests.e2e.audit import Audit
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import WEBHOOKS, run_registered_server
from tests.e2e.openyurt import V1_5
from tests.e2e.scenario import BEIJING, Scenario, scenario
from tests.waiting import wait_for

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


def name_of(label: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in label.lower())[:40].strip("-")


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
def demo(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    serving = run_registered_server(plane, tmp_path_factory.mktemp("convergence"))
    with serving, scenario(plane.api(), release=V1_5) as made:
        made.start_sentinel()
        yield made


def create(demo: Scenario, name: str, given: Input) -> None:
    made = demo.subject(name, copy.deepcopy(given.pods), BEIJING)
    demo.form.templates(made)["deploymentTemplate"]["spec"] |= given.spec
    demo.api.create(demo.form.path(demo.namespace), made)
    wait_for(lambda: demo.controller.has_settled(name), what="OpenYurt's controller creates the workload")


def override_without_validation(demo: Scenario, name: str, given: Input) -> None:
    """Write an overrider as soon as the apiserver knows that the webhook is gone."""

    def is_admitted() -> bool:
        demo.override(given.entry, name=name)
        return True

    wait_for(is_admitted, what="the overrider is admitted")


def is_final(demo: Scenario, name: str, given: Input) -> bool:
    """Return whether the status reports complete rendering, or names the members that the apiserver dropped."""
    text = json.dumps(demo.status(name))
    return all(pointer in text for pointer in given.pruned) if given.pruned else demo.rendered(name)


def generation_of(demo: Scenario, name: str) -> int:
    return int(demo.workloads(name)[BEIJING]["metadata"]["generation"])


def test_each_input_is_written_twice_at_most_and_its_status_is_correct(plane: ControlPlane, demo: Scenario) -> None:
    given = {name_of(label): one for label, one in INPUTS.items()}
    for name, one in given.items():
        create(demo, name, one)
    audit = Audit(plane)
    for name, one in given.items():
        if not one.pruned:
            demo.override(one.entry, name=name)
    with disable_validation(plane.api()):
        for name, one in given.items():
            if one.pruned:
                override_without_validation(demo, name, one)
    for name, one in given.items():
        wait_for(partial(is_final, demo, name, one), what=f"the status of {name} is final: {demo.status(name)}")
    demo.handle_sentinel()
    workloads = {name: demo.workloads(name)[BEIJING]["metadata"]["name"] for name in given}
    early, before = audit.counts(demo.namespace), {name: generation_of(demo, name) for name in given}
    demo.handle_sentinel()
    demo.handle_sentinel()
    late, after = audit.counts(demo.namespace), {name: generation_of(demo, name) for name in given}
    assert {name: late[one] for name, one in workloads.items() if late[one] > MAX_WRITES} == {}
    assert {name: late[one] for name, one in workloads.items() if late[one] != early[one]} == {}
    assert before == after
    summaries = {name: demo.status(name)["summary"] for name in given}
    assert summaries == {name: "0/1" if one.pruned else "1/1" for name, one in given.items()}
