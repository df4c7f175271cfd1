"""Interprets the health of an object as observed in a member cluster; one function for each kind.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/healthy.go.
"""

from app.interpret.access import count, mapping, number, objects, text
from app.model.json import JSONObject


def _is_observed(document: JSONObject) -> bool:
    """Return whether the status is about the object's current generation."""
    return count(document, "status", "observedGeneration") == count(document, "metadata", "generation")


def workload(document: JSONObject) -> bool:
    """Return whether all replicas of a Deployment or StatefulSet are updated and available."""
    replicas = number(document, "spec", "replicas")
    updated = count(document, "status", "updatedReplicas")
    if not _is_observed(document) or (replicas is not None and updated < replicas):
        return False
    return count(document, "status", "availableReplicas") >= updated


def replica_set(document: JSONObject) -> bool:
    """Return whether all replicas of a ReplicaSet are available."""
    replicas = number(document, "spec", "replicas")
    return _is_observed(document) and (replicas is None or count(document, "status", "availableReplicas") >= replicas)


def daemon_set(document: JSONObject) -> bool:
    """Return whether all desired Pods of a DaemonSet are updated and available."""
    updated = count(document, "status", "updatedNumberScheduled")
    if not _is_observed(document) or updated < count(document, "status", "desiredNumberScheduled"):
        return False
    return count(document, "status", "numberAvailable") >= updated


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
    """Return whether a Pod is running and ready, or has succeeded."""
    phase = text(document, "status", "phase")
    return phase == "Succeeded" or (phase == "Running" and _has_condition(document, "Ready"))


def pod_disruption_budget(document: JSONObject) -> bool:
    """Return whether a PodDisruptionBudget has its desired number of healthy Pods."""
    return count(document, "status", "currentHealthy") >= count(document, "status", "desiredHealthy")
