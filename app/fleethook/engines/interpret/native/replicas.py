"""Reads and sets replica counts.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/replica.go, revisereplica.go.
"""

from collections.abc import Callable

from fleethook.engines.interpret.native.pod_templates import known_requirements, requirements, template_of
from fleethook.interpret.typed_members import InterpretError, count, number, with_member
from fleethook.model.json import JSON, JSONObject

Counted = tuple[int, JSON]


def workload(document: JSONObject) -> Counted:
    """Return ``spec.replicas`` of a Deployment, ReplicaSet or StatefulSet, and the requirements of a replica."""
    return count(document, "spec", "replicas"), known_requirements(template_of(document))


def job(document: JSONObject) -> Counted:
    """Return ``spec.parallelism`` of a Job, at most ``spec.completions``, and the requirements of a replica."""
    parallelism, completions = count(document, "spec", "parallelism"), number(document, "spec", "completions")
    replicas = parallelism if completions is None else min(parallelism, completions)
    return replicas, known_requirements(template_of(document))


def pod(document: JSONObject) -> Counted:
    """Return 1 and the requirements of a Pod."""
    return 1, requirements(document)


def set_member(*path: str) -> Callable[[JSONObject, int], JSONObject]:
    """Return a function that sets a replica count at a path.

    Karmada only changes an existing count. So it sends an object without a count to each cluster undivided.
    """

    def revise(document: JSONObject, replicas: int) -> JSONObject:
        if number(document, *path) == replicas:
            return document
        if replicas < 0:
            raise InterpretError(f"the replica count {replicas} is negative")
        return with_member(document, replicas, *path)

    return revise
