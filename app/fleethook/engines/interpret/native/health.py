"""Interprets the health of an object as observed in a member cluster; one function for each kind.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/healthy.go.
"""

from fleethook.interpret.typed_fields import count, flag, mapping, number, objects, text
from fleethook.model.json import JSONObject


def _is_observed(document: JSONObject) -> bool:
    """Return whether the status is about the object's current generation."""
    return count(document, "status", "observedGeneration") == count(document, "metadata", "generation")


def deployment(document: JSONObject) -> bool:
    """Return whether all replicas of a Deployment are available and updated; those of a paused one may be old."""
    return _is_observed(document) and _is_rolled_out(document, held=flag(document, "spec", "paused"))


def stateful_set(document: JSONObject) -> bool:
    """Return whether all replicas of a StatefulSet are available, and those that its strategy updates are updated."""
    on_delete = text(document, "spec", "updateStrategy", "type") == "OnDelete"
    partition = count(document, "spec", "updateStrategy", "rollingUpdate", "partition")
    return _is_observed(document) and _is_rolled_out(document, held=on_delete or partition)


def _is_rolled_out(document: JSONObject, *, held: int | bool) -> bool:
    """Apply the rule for workloads of docs/interpreters.md, which ``fleet.rolled_out`` has for scripts.

    Args:
        document: The workload.
        held: The number of replicas that the spec keeps at the old version; True for the whole update.
    """
    replicas = number(document, "spec", "replicas") or 0
    updated = count(document, "status", "updatedReplicas")
    kept = replicas if held is True else held
    return updated >= replicas - kept and count(document, "status", "availableReplicas") >= max(replicas, updated)


def replica_set(document: JSONObject) -> bool:
    """Return whether all replicas of a ReplicaSet are available."""
    replicas = number(document, "spec", "replicas")
    return _is_observed(document) and (replicas is None or count(document, "status", "availableReplicas") >= replicas)


def daemon_set(document: JSONObject) -> bool:
    """Return whether all desired Pods of a DaemonSet are available and updated; with OnDelete they may be old."""
    desired = count(document, "status", "desiredNumberScheduled")
    updated = count(document, "status", "updatedNumberScheduled")
    held = text(document, "spec", "updateStrategy", "type") == "OnDelete"
    if not _is_observed(document) or (updated < desired and not held):
        return False
    return count(document, "status", "numberAvailable") >= max(desired, updated)


def job(document: JSONObject) -> bool:
    """Return whether a Job has not failed; a running or suspended Job is healthy. Karmada v1.16 has no rule."""
    return not _has_condition(document, "Failed") and not _has_condition(document, "FailureTarget")


def cron_job(document: JSONObject) -> bool:
    """Return True, because the status of a CronJob contains no failures. Karmada v1.16 has no rule."""
    mapping(document, "status")
    return True


def _has_condition(document: JSONObject, kind: str) -> bool:
    return any(
        text(condition, "type") == kind and text(condition, "status") == "True"
        for condition in objects(document, "status", "conditions")
    )


def service(document: JSONObject) -> bool:
    """Return whether the load balancer of a Service has an address; other types are healthy."""
    return text(document, "spec", "type") != "LoadBalancer" or ingress(document)


def ingress(document: JSONObject) -> bool:
    """Return whether the load balancer of an Ingress has an address."""
    addresses = objects(document, "status", "loadBalancer", "ingress")
    return any(text(address, "hostname") or text(address, "ip") for address in addresses)


def persistent_volume_claim(document: JSONObject) -> bool:
    """Return whether a PersistentVolumeClaim is bound."""
    return text(document, "status", "phase") == "Bound"


def pod(document: JSONObject) -> bool:
    """Return whether a Pod is running and ready, has succeeded, or is held back by its scheduling gates."""
    phase = text(document, "status", "phase")
    if phase == "Running":
        return _has_condition(document, "Ready")
    return phase == "Succeeded" or any(
        text(condition, "type") == "PodScheduled" and text(condition, "reason") == "SchedulingGated"
        for condition in objects(document, "status", "conditions")
    )


def pod_disruption_budget(document: JSONObject) -> bool:
    """Return whether a PodDisruptionBudget has its desired number of healthy Pods."""
    return count(document, "status", "currentHealthy") >= count(document, "status", "desiredHealthy")
