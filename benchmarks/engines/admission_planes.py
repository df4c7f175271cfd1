"""Control planes that differ only by the overriders in effect, and by the way that they are applied."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.engines.deployments import plane
from tests.builders import container, entry, image, node_pool, overrider, patch, yurt_app_set_v1beta1
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.policies import World, in_namespace, path_of, workloads_path

RENDERED: Final = "fleethook.io/rendered"
CONSTANT: Final = "fleethook.io/constant"
POOLS: Final = ("hangzhou", "beijing")
ACTIVE_SECONDS: Final = 120.0
"""Longest wait for a policy or a webhook, which takes some seconds with 1,000 overriders."""
NAMESPACES: Final = "/api/v1/namespaces"


class Setting(NamedTuple):
    """The overriders of a control plane."""

    way: str
    """``nothing``, ``constant`` (one policy without any condition) or ``policies``."""
    overriders: int = 1
    spread: bool = False
    """Whether each overrider has its own namespace, instead of one for all."""


class Prepared(NamedTuple):
    """A control plane that is ready for writes."""

    plane: ControlPlane
    worlds: tuple[World, ...]
    mark: str
    """The annotation that a write must get, or ``""``."""


@contextlib.contextmanager
def prepare(setting: Setting, directory: Path) -> Iterator[Prepared]:
    """Run a control plane with the overriders of a setting, and wait until the last one of them acts.

    Raises:
        NoControlPlaneError: The binaries of the end-to-end tests have not been built.
        TimeoutError: The overriders did not act.
    """
    worlds = tuple(
        make_world(number, f"bench-{number if setting.spread else 0}") for number in range(setting.overriders)
    )
    mark = {"nothing": "", "constant": CONSTANT}.get(setting.way, RENDERED)
    with plane(directory) as running:
        admin = running.api()
        for name in dict.fromkeys(world.namespace for world in worlds):
            admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if setting.way == "constant":
            install_constant(admin)
        elif setting.way == "policies":
            install_policies(admin, worlds)
        wait_until_active(admin, worlds[-1].bare(POOLS[0]), mark)
        yield Prepared(running, worlds, mark)


def make_world(number: int, namespace: str) -> World:
    """Return a subject with two pools, and an overrider that sets an image and adds a container."""
    name = f"app-{number}"
    subject = yurt_app_set_v1beta1(name, POOLS)
    rule = overrider(
        entry(
            "*",
            items=[image("nginx", "registry.example.org/{{nodepool}}/nginx:2")],
            patches=[patch("add", "/spec/template/spec/containers/-", container("side", "side:1"))],
        ),
        name=name,
        subject={"apiVersion": subject["apiVersion"], "kind": "YurtAppSet", "name": name},
    )
    pools: Mapping[str, Any] = {pool: node_pool(pool) for pool in POOLS}
    return in_namespace(namespace, subject, rule, pools)


def install_constant(admin: Api, *, namespace: str = "") -> None:
    """Install a policy that adds an annotation to all workloads, or to those of a namespace."""
    rule = {
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"],
    }  # fmt: skip
    # The kind of patch that fleethook compiles. All workloads of the benchmark have annotations.
    expression = f'[JSONPatch{{op: "add", path: "/metadata/annotations/{CONSTANT.replace("/", "~1")}", value: "1"}}]'
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "constant"},
        "spec": {
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [rule], **(select_namespace(namespace) if namespace else {})},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "constant"},
        "spec": {"policyName": "constant"},
    }
    for document in (policy, binding):
        admin.apply(path_of(document), document)


def install_policies(admin: Api, worlds: Sequence[World]) -> None:
    """Install the policies of overriders, without these overriders."""
    for world in worlds:
        compilation = world.compile()
        if not compilation.objects:
            raise ValueError(f"the benchmark's overrider does not compile: {compilation.refusals}")
        for document in compilation.objects:
            admin.apply(path_of(document), document)


def select_namespace(namespace: str) -> dict[str, Any]:
    """Return the selector of a namespace, for a policy or a webhook."""
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


def wait_until_active(admin: Api, document: dict[str, Any], mark: str) -> None:
    """Wait until kube-apiserver adds the annotation ``mark`` to a new workload; raises TimeoutError."""
    end = time.monotonic() + ACTIVE_SECONDS
    while True:
        made = admin.create(workloads_path(document), document, dryRun="All")
        if not mark or mark in made["metadata"].get("annotations", {}):
            return
        if time.monotonic() > end:
            raise TimeoutError(
                f"{mark} is missing on the workloads of {document['metadata']['namespace']} after {ACTIVE_SECONDS:.0f} s"
            )
        time.sleep(0.2)
