"""Whether an object is well, as observed in a member cluster (upstream: native/healthy.go)."""

from app.interpret.access import count, mapping, number, objects, text
from app.model.json import JSONObject


def _observed(document: JSONObject) -> bool:
    """Return whether the status is about the object as it is now."""
    return count(document, "status", "observedGeneration") == count(document, "metadata", "generation")


def workload(document: JSONObject) -> bool:
    """Deployment, StatefulSet: all replicas are of the newest template and available."""
    replicas = number(document, "spec", "replicas")
    updated = count(document, "status", "updatedReplicas")
    if not _observed(document) or (replicas is not None and updated < replicas):
        return False
    return count(document, "status", "availableReplicas") >= updated


def replica_set(document: JSONObject) -> bool:
    """ReplicaSet: all replicas are available."""
    replicas = number(document, "spec", "replicas")
    return _observed(document) and (replicas is None or count(document, "status", "availableReplicas") >= replicas)


def daemon_set(document: JSONObject) -> bool:
    """DaemonSet: every node that should have one has one of the newest template, available."""
    updated = count(document, "status", "updatedNumberScheduled")
    if not _observed(document) or updated < count(document, "status", "desiredNumberScheduled"):
        return False
    return count(document, "status", "numberAvailable") >= updated


def job(document: JSONObject) -> bool:
    """Job: it has not failed; one that runs, waits or is suspended is well. Upstream has no rule."""
    return not _condition(document, "Failed") and not _condition(document, "FailureTarget")


def cron_job(document: JSONObject) -> bool:
    """CronJob: always, as its status tells of Jobs that run and of no failure. Upstream has no rule."""
    mapping(document, "status")
    return True


def _condition(document: JSONObject, kind: str) -> bool:
    return any(
        text(condition, "type") == kind and text(condition, "status") == "True"
        for condition in objects(document, "status", "conditions")
    )


def service(document: JSONObject) -> bool:
    """Service: a load balancer has an address; the other types have nothing to wait for."""
    return text(document, "spec", "type") != "LoadBalancer" or ingress(document)


def ingress(document: JSONObject) -> bool:
    """Ingress: its load balancer has an address."""
    addresses = objects(document, "status", "loadBalancer", "ingress")
    return any(text(address, "hostname") or text(address, "ip") for address in addresses)


def persistent_volume_claim(document: JSONObject) -> bool:
    """PersistentVolumeClaim: it is bound."""
    return text(document, "status", "phase") == "Bound"


def pod(document: JSONObject) -> bool:
    """Pod: it runs and is ready, or has succeeded."""
    phase = text(document, "status", "phase")
    return phase == "Succeeded" or (phase == "Running" and _condition(document, "Ready"))


def pod_disruption_budget(document: JSONObject) -> bool:
    """PodDisruptionBudget: as many Pods are well as it wants."""
    return count(document, "status", "currentHealthy") >= count(document, "status", "desiredHealthy")
