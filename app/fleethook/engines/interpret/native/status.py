"""Reflects the status of an object in a member cluster: selects the members to report.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/reflectstatus.go.
"""

import re
from collections.abc import Callable
from typing import Final

from fleethook.interpret.interpreter import InterpretError
from fleethook.interpret.typed_fields import count, mapping, objects, present, text
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import GENERATION_ANNOTATION

_INTEGER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)


def whole(document: JSONObject) -> JSONObject | None:
    """Return the complete status of an object of any kind, None if it has none."""
    return mapping(document, "status") if present(document, "status") else None


def selected(*members: str, always: frozenset[str] = frozenset()) -> Callable[[JSONObject], JSONObject | None]:
    """Return a function that reports some members of the status, without zeros except for the members in ``always``."""

    def reflect(document: JSONObject) -> JSONObject | None:
        status = whole(document)
        if status is None:
            return None
        found = {name: _READERS.get(name, count)(status, name) for name in members}
        return {name: value for name, value in found.items() if value or name in always}

    return reflect


_READERS: Final[dict[str, Callable[[JSONObject, str], JSON]]] = {
    "conditions": objects,
    "startTime": text,
    "completionTime": text,
    "disruptedPods": mapping,
}
"""Readers of the members that are not counters."""


def workload(*members: str, always: frozenset[str] = frozenset()) -> Callable[[JSONObject], JSONObject | None]:
    """Return a function that reports some members, with the generations of the object and of its template.

    Karmada writes the template's generation to an annotation.
    """
    reflect_members = selected(*members, always=always)

    def reflect(document: JSONObject) -> JSONObject | None:
        found = reflect_members(document)
        if found is None:
            return None
        written = text(document, "metadata", "annotations", GENERATION_ANNOTATION)
        if not _INTEGER.fullmatch(written):
            raise InterpretError(
                f"annotation {GENERATION_ANNOTATION} is {written!r}, expected the generation of the resource template"
            )
        generations = {
            "generation": count(document, "metadata", "generation"),
            "resourceTemplateGeneration": int(written),
        }
        # None means that the member cluster has not reported a status yet.
        return {**{name: value for name, value in generations.items() if value}, **found} or None

    return reflect


def service(document: JSONObject) -> JSONObject | None:
    """Return the load balancer of a Service; None for the other types."""
    if text(document, "spec", "type") != "LoadBalancer" or whole(document) is None:
        return None
    return {"loadBalancer": mapping(document, "status", "loadBalancer")}


REPLICAS: Final = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
DAEMONS: Final = (
    "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled", "numberReady",
    "updatedNumberScheduled", "numberUnavailable",
)  # fmt: skip
STATEFUL_SET_ALWAYS: Final = frozenset({"replicas", "availableReplicas"})
DAEMONS_ALWAYS: Final = frozenset(DAEMONS[:2] + DAEMONS[3:5])
_BUDGET: Final = ("disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy", "disruptedPods")

deployment: Final = workload(*REPLICAS, "unavailableReplicas", "observedGeneration")
replica_set: Final = workload(
    "replicas", "readyReplicas", "availableReplicas", "observedGeneration", always=frozenset({"replicas"})
)
# Karmada v1.16 does not report observedGeneration, so it never considers a StatefulSet rolled out.
stateful_set: Final = workload(*REPLICAS, "currentReplicas", "observedGeneration", always=STATEFUL_SET_ALWAYS)
daemon_set: Final = workload(*DAEMONS, "observedGeneration", always=DAEMONS_ALWAYS)
job: Final = selected("active", "succeeded", "failed", "conditions", "startTime", "completionTime")
pod_disruption_budget: Final = selected(*_BUDGET, always=frozenset(_BUDGET[:4]))
autoscaler: Final = selected("currentReplicas", "desiredReplicas", always=frozenset({"desiredReplicas"}))
