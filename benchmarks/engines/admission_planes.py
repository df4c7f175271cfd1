"""Control planes that differ only by the overriders in effect, and by the way that they are applied."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.engines.deployments import plane
from tests.builders import container, entry, image, node_pool, overrider, patch, yurt_app_set_v1beta1
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import OPENYURT, run_registered_server
from tests.e2e.openyurt_crds import install_openyurt_crds
from tests.e2e.policies import World, in_namespace, path_of, workloads_path

RENDERED: Final = "fleethook.io/rendered"
CONSTANT: Final = "fleethook.io/constant"
POOLS: Final = ("hangzhou", "beijing")
ACTIVE_SECONDS: Final = 120.0
"""Longest wait for a policy or a webhook, which takes some seconds with 1,000 overriders."""
NAMESPACES: Final = "/api/v1/namespaces"
NODE_POOLS: Final = "apps.openyurt.io/v1beta2"


class Setting(NamedTuple):
    """The overriders of a control plane."""

    way: str
    """``nothing``, ``constant`` (one policy without any condition), ``policies`` or ``webhook``."""
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
    worlds = tuple(_world(setting, number) for number in range(setting.overriders))
    mark = {"nothing": "", "constant": CONSTANT}.get(setting.way, RENDERED)
    with plane(directory) as running, contextlib.ExitStack() as stack:
        admin = running.api()
        for name in dict.fromkeys(world.namespace for world in worlds):
            admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if setting.way == "constant":
            _install_constant(admin)
        elif setting.way == "policies":
            _install_policies(admin, worlds)
        elif setting.way == "webhook":
            _store(admin, worlds)
            stack.enter_context(run_registered_server(running, directory))
        _wait_until_active(admin, worlds[-1], mark)
        yield Prepared(running, worlds, mark)


def _world(setting: Setting, number: int) -> World:
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
    return in_namespace(f"bench-{number if setting.spread else 0}", subject, rule, pools)


def _install_constant(admin: Api) -> None:
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
            "matchConstraints": {"resourceRules": [rule]},
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


def _install_policies(admin: Api, worlds: tuple[World, ...]) -> None:
    for world in worlds:
        compilation = world.compile()
        if not compilation.objects:
            raise ValueError(f"the benchmark's overrider does not compile: {compilation.refusals}")
        for document in compilation.objects:
            admin.apply(path_of(document), document)


def _store(admin: Api, worlds: tuple[World, ...]) -> None:
    """Store the subjects and overriders before the server starts, so that its webhooks do not see their creation."""
    install_openyurt_crds(admin)
    for pool in filter(None, worlds[0].pools.values()):
        admin.create(f"/apis/{NODE_POOLS}/nodepools", {**pool, "apiVersion": NODE_POOLS})
    for world in worlds:
        version = world.subject["apiVersion"]
        made = admin.create(f"/apis/{version}/namespaces/{world.namespace}/yurtappsets", world.subject)
        # The owner references of the workloads need the uid that kube-apiserver assigns.
        world.subject["metadata"]["uid"] = made["metadata"]["uid"]
        admin.create(f"{OPENYURT}/namespaces/{world.namespace}/yurtappoverriders", world.overrider)


def _wait_until_active(admin: Api, world: World, mark: str) -> None:
    document = world.bare(POOLS[0])
    end = time.monotonic() + ACTIVE_SECONDS
    while True:
        made = admin.create(workloads_path(document), document, dryRun="All")
        if not mark or mark in made["metadata"].get("annotations", {}):
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{mark} is missing on the workloads of {world.namespace} after {ACTIVE_SECONDS:.0f} s")
        time.sleep(0.2)
