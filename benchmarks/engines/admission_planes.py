"""The objects of the part `admission`: a subject with two pools and its overrider, in a namespace of its own."""

import copy
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fleethook.engines.overrider.plan.plan_cache import SubjectPlans
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import render_with
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import SUBJECT_KINDS
from tests.builders import container, entry, image, node_pool, overrider, patch, rendered, yurt_app_set_v1beta1
from tests.e2e.cluster import Api

RENDERED: Final = "fleethook.io/rendered"
CONSTANT: Final = "fleethook.io/constant"
POOLS: Final = ("hangzhou", "beijing")
ACTIVE_SECONDS: Final = 120.0
"""Longest wait for a webhook."""
NAMESPACES: Final = "/api/v1/namespaces"


class World(NamedTuple):
    """A subject with its overrider in a namespace of its own."""

    namespace: str
    subject: dict[str, Any]
    overrider: dict[str, Any]
    pools: Mapping[str, dict[str, Any] | None]

    @property
    def group_kind(self) -> GroupKind:
        return next(one for one in SUBJECT_KINDS if one.kind == self.subject["kind"])

    @property
    def kind(self) -> str:
        return workload_kinds(self.subject)[0]

    def bare(self, pool: str) -> dict[str, Any]:
        """Return the workload as OpenYurt's controller creates it."""
        plan = SubjectPlans(self.group_kind, self.subject, None).plan(self.kind, pool, self.pools[pool]).full
        document = render_with(plan, plan.create.bare, last_render=None, creating=True)
        metadata = {name: one for name, one in document["metadata"].items() if name != "generateName"}
        for reference in metadata["ownerReferences"]:
            reference.setdefault("uid", "u-1")
        return copy.deepcopy({**document, "metadata": {**metadata, "name": f"w-{pool}", "namespace": self.namespace}})

    def by_webhook(self, document: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the workload after the webhook's patch."""
        known = [one for one in self.pools.values() if one is not None]
        operation = "CREATE" if old is None else "UPDATE"
        return rendered(
            document, self.subject, self.overrider, *known, namespace=self.namespace, operation=operation, old=old
        )


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
    for one in (subject, rule):
        one["metadata"]["namespace"] = namespace
    return World(namespace, subject, rule, pools)


def workloads_path(document: dict[str, Any]) -> str:
    """Return the path of the Deployments in a workload's namespace."""
    return f"/apis/apps/v1/namespaces/{document['metadata']['namespace']}/deployments"


def select_namespace(namespace: str) -> dict[str, Any]:
    """Return the selector of a namespace, for a webhook."""
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
