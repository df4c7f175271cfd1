"""Workloads whose creation in a dry run shows whether a policy acts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.cel_expressions import quote
from fleethook.engines.overrider.policies.mode import PROBE_ANNOTATION
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import POOL_NAME_LABEL, RENDERED_ANNOTATION

_KINDS: Final = {"deployments": "Deployment", "statefulsets": "StatefulSet"}


class Probe(NamedTuple):
    """A workload to create in a dry run."""

    plural: str
    workload: JSONObject
    digest: str
    """The value of ``fleethook.io/rendered`` that the policy sets, apart from a suffix."""

    def is_rendered(self, answer: JSONObject) -> bool:
        """Return whether the answer of the dry run shows that the policy acts."""
        annotations = as_object(as_object(answer.get("metadata")).get("annotations"))
        return str(annotations.get(RENDERED_ANNOTATION) or "").startswith(self.digest)


def build_probes(
    objects: Sequence[JSONObject],
    *,
    group_kind: GroupKind,
    subject: JSONObject,
    overrider: JSONObject,
    pools: Mapping[str, JSONObject | None],
) -> list[Probe]:
    """Return a probe for each policy of a compilation.

    Args:
        objects: The objects of the compilation.
        group_kind: The kind of the subject.
        subject: The subject.
        overrider: The overrider.
        pools: The node pools of the subject.
    """
    plans = SubjectPlans(group_kind, subject, overrider)
    probes = []
    for document in objects:
        if document["kind"] != "MutatingAdmissionPolicy":
            continue
        constraints = document["spec"]["matchConstraints"]
        plural = constraints["resourceRules"][0]["resources"][0]
        pool = _find_pool(document, pools)
        plan = plans.plan(_KINDS[plural], pool, pools.get(pool))
        workload = _build_workload(plan.for_update.base, kind=_KINDS[plural], subject=subject, pool=pool)
        probes.append(Probe(plural, workload, plan.digest))
    return probes


def _find_pool(policy: JSONObject, pools: Iterable[str]) -> str:
    """Return a node pool of a policy: its first variable maps names to values."""
    row: str = policy["spec"]["variables"][0]["expression"]
    return next(pool for pool in pools if f"{quote(pool)}: [" in row)


def _build_workload(base: JSONObject, *, kind: str, subject: JSONObject, pool: str) -> JSONObject:
    """Return the workload as OpenYurt's controllers create it; a selector is required, and matches its pods."""
    metadata = subject["metadata"]
    labels = {POOL_NAME_LABEL: pool}
    owner = {"apiVersion": subject["apiVersion"], "kind": subject["kind"], "controller": True}
    pod_template = base["spec"]["template"]
    pod_metadata = as_object(pod_template.get("metadata"))
    pods = {**pod_template, "metadata": {**pod_metadata, "labels": {**as_object(pod_metadata.get("labels")), **labels}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "generateName": "fleethook-probe-",
            "namespace": metadata.get("namespace") or "default",
            # A policy selects workloads by the labels of the template, too.
            "labels": {**as_object(as_object(base.get("metadata")).get("labels")), **labels},
            "annotations": {PROBE_ANNOTATION: "true"},
            "ownerReferences": [{**owner, "name": metadata["name"], "uid": metadata["uid"]}],
        },
        "spec": {**base["spec"], "selector": {"matchLabels": labels}, "template": pods},
    }
