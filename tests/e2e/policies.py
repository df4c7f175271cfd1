"""Compiled policies on a real kube-apiserver, beside the webhook's function on the same objects."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.compiler import compile_overrider
from fleethook.engines.overrider.policies.documents import FailurePolicy
from fleethook.engines.overrider.policies.mode import Compilation
from fleethook.engines.overrider.render.render import render_with
from fleethook.engines.overrider.subject.subject_members import workload_kinds
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON
from fleethook.model.openyurt import SUBJECT_KINDS
from tests.builders import rendered
from tests.e2e.cluster import Api, RefusedError
from tests.waiting import wait_for

_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_WORKLOADS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}


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

    def compile(self) -> Compilation:
        """Return the policies, which refuse a write if they fail, so that no failure stays hidden."""
        return compile_overrider(
            self.group_kind, self.subject, self.overrider, pools=self.pools, failure_policy=FailurePolicy.FAIL
        )

    def bare(self, pool: str) -> dict[str, Any]:
        """Return the workload as OpenYurt's controller creates it."""
        plan = SubjectPlans(self.group_kind, self.subject, None).plan(self.kind, pool, self.pools[pool]).full
        document = render_with(plan, plan.bare, memory=None, creating=True)
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


def in_namespace(namespace: str, subject: JSON, overrider: JSON, pools: Mapping[str, Any]) -> World:
    """Return a world with copies of the objects in ``namespace``."""
    made = [copy.deepcopy(one) for one in (subject, overrider)]
    for one in made:
        one["metadata"]["namespace"] = namespace
    return World(namespace, made[0], made[1], pools)


def renders(world: World) -> bool:
    """Return whether the webhook renders the workloads of all pools."""
    plans = SubjectPlans(world.group_kind, world.subject, world.overrider)
    try:
        return bool(world.pools) and all(
            plans.plan(world.kind, pool, node_pool).applies for pool, node_pool in world.pools.items()
        )
    except (RenderError, SubjectError):
        return False


class Plane:
    """A kube-apiserver with a namespace that no policy selects."""

    def __init__(self, api: Api, plain: str) -> None:
        self.api = api
        self._plain = plain

    def install(self, worlds: Sequence[tuple[World, Compilation]]) -> None:
        """Apply policies, and wait until all are active: kube-apiserver sees the last one after the others."""
        for _, compilation in worlds:
            for document in compilation.objects:
                self.api.apply(path_of(document), document)
        last, _ = worlds[-1]
        wait_for(partial(self._is_rendered, last), what=f"the policy of {last.namespace} is active")

    def _is_rendered(self, world: World) -> bool:
        made = self.create(world.bare(next(iter(world.pools))))
        return "fleethook.io/rendered" in made["metadata"].get("annotations", {})

    def uninstall(self, worlds: Sequence[tuple[World, Compilation]]) -> None:
        """Delete policies."""
        for _, compilation in worlds:
            for document in reversed(compilation.objects):
                self.api.delete(path_of(document))

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a creation, which is not stored."""
        return dict(self.api.create(workloads_path(document), document, dryRun="All"))

    def default(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a workload with the defaults of kube-apiserver, and without any policy."""
        metadata = {**document["metadata"], "namespace": self._plain}
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
            metadata.pop(name, None)
        made = self.create({**document, "metadata": metadata})
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
            made["metadata"].pop(name, None)
        made["metadata"]["namespace"] = document["metadata"]["namespace"]
        return made


def path_of(document: dict[str, Any]) -> str:
    """Return the path of an object of a policy."""
    metadata = document["metadata"]
    return f"/apis/admissionregistration.k8s.io/v1/{_PLURALS[document['kind']]}/{metadata['name']}"


def workloads_path(document: dict[str, Any]) -> str:
    """Return the path of the workloads in a workload's namespace."""
    return f"/apis/apps/v1/namespaces/{document['metadata']['namespace']}/{_WORKLOADS[document['kind']]}"


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a workload that a render may change."""
    metadata = document["metadata"]
    return {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "spec": document["spec"],
    }


__all__ = ["Plane", "RefusedError", "World", "comparable", "in_namespace", "path_of", "renders", "workloads_path"]
