"""Replica counts: reading them, and setting them (upstream: native/replica.go, revisereplica.go)."""

from collections.abc import Callable

from app.interpret.access import InterpretError, count, number, with_member
from app.interpret.native.pods import known_requirements, requirements, template_of
from app.model.json import JSON, JSONObject

Counted = tuple[int, JSON]


def workload(document: JSONObject) -> Counted:
    """Deployment, ReplicaSet, StatefulSet: ``spec.replicas``, and what each asks for."""
    return count(document, "spec", "replicas"), known_requirements(template_of(document))


def job(document: JSONObject) -> Counted:
    """Job: ``spec.parallelism``, and never more than there is to be completed."""
    parallelism, completions = count(document, "spec", "parallelism"), number(document, "spec", "completions")
    replicas = parallelism if completions is None else min(parallelism, completions)
    return replicas, known_requirements(template_of(document))


def pod(document: JSONObject) -> Counted:
    """Pod: one."""
    return 1, requirements(document)


def set_member(*path: str) -> Callable[[JSONObject, int], JSONObject]:
    """Return a function that sets a replica count at a path.

    Upstream sets it only where there is one already, so an object that leaves it to the default is sent whole to each
    cluster.
    """

    def revise(document: JSONObject, replicas: int) -> JSONObject:
        if number(document, *path) == replicas:
            return document
        if replicas < 0:
            raise InterpretError(f"the replica count {replicas} is negative")
        return with_member(document, replicas, *path)

    return revise
