"""Making one status of those of the member clusters (upstream: native/aggregatestatus.go, util/helper).

Each function takes the resource template and the items, and returns the template with its status; the same object where
nothing changes. Clusters that have not reported have no ``status`` in their item.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from app.interpret.access import count, flag, listing, mapping, objects, text
from app.model.json import JSON, JSONObject

Items = Sequence[JSONObject]


def _statuses(items: Items) -> list[JSONObject]:
    return [mapping(item, "status") for item in items if item.get("status") is not None]


def _with_status(template: JSONObject, status: JSONObject) -> JSONObject:
    """Return the template with a status; the same template if its status has the same meaning already."""
    before = mapping(template, "status")
    return template if before == status or _typed(before) == _typed(status) else {**template, "status": status}


def _typed(value: JSON) -> JSON:
    """Return a value as the API's types compare it: a member that is zero or empty is one that is not there."""
    if isinstance(value, list):
        return [_typed(element) for element in value]
    if not isinstance(value, dict):
        return value
    members = {name: _typed(member) for name, member in value.items()}
    return {name: member for name, member in members.items() if member}


def _merged(template: JSONObject, counters: JSONObject, always: frozenset[str] = frozenset()) -> JSONObject:
    """Return the template's status with counters in it, zeros only of the members that the API's type always writes."""
    kept = {name: value for name, value in mapping(template, "status").items() if name not in counters}
    return kept | {name: value for name, value in counters.items() if value or name in always}


def workload(*members: str, always: frozenset[str] = frozenset()) -> Callable[[JSONObject, Items], JSONObject]:
    """Return a function that sums counters, and tells when all clusters have seen the newest template.

    Zeros are written of the members in ``always``.
    """

    def aggregate(template: JSONObject, items: Items) -> JSONObject:
        statuses = _statuses(items)
        counters = {name: _total(statuses, name) for name in members}
        generation = count(template, "metadata", "generation")
        aligned = sum(_aligned(status, generation) for status in statuses)
        observed = generation if aligned == len(items) else count(template, "status", "observedGeneration")
        return _with_status(template, _merged(template, {**counters, "observedGeneration": observed}, always))

    return aggregate


def _total(statuses: Sequence[JSONObject], name: str) -> int:
    found = [status.get(name) or 0 for status in statuses]
    # The usual case is asked at once; where it is not, the status that is wrong is looked for.
    return sum(found) if all(type(value) is int for value in found) else sum(count(one, name) for one in statuses)


def _aligned(status: JSONObject, generation: int) -> bool:
    """Return whether a cluster's controller has seen the object as the newest template made it."""
    seen = count(status, "observedGeneration") >= count(status, "generation")
    return seen and count(status, "resourceTemplateGeneration") >= generation


def service(template: JSONObject, items: Items) -> JSONObject:
    """Service: the addresses of all load balancers; nothing for the other types."""
    if text(template, "spec", "type") != "LoadBalancer":
        return template
    return _load_balancers(template, items, "hostname", "ip", "ipMode")


def ingress(template: JSONObject, items: Items) -> JSONObject:
    """Ingress: the addresses of all load balancers."""
    return _load_balancers(template, items, "hostname", "ip")


def _load_balancers(template: JSONObject, items: Items, *identity: str) -> JSONObject:
    found: dict[tuple[JSON, ...], dict[tuple[JSON, ...], JSONObject]] = {}
    for status in _statuses(items):
        for address in objects(status, "loadBalancer", "ingress"):
            ports = found.setdefault(tuple(text(address, name) or None for name in identity), {})
            for port in objects(address, "ports"):
                key = count(port, "port"), text(port, "protocol"), text(port, "error") or None
                ports.setdefault(key, port)
    addresses = []
    for key in sorted(found, key=_address_order):
        merged: JSONObject = {name: value for name, value in zip(identity, key, strict=True) if value is not None}
        if ports := found[key]:
            merged["ports"] = [ports[one] for one in sorted(ports, key=_port_order)]
        addresses.append(merged)
    return _with_status(template, {"loadBalancer": {"ingress": addresses} if addresses else {}})


def _address_order(key: tuple[JSON, ...]) -> tuple[bool, str, str, bool, str]:
    hostname, ip, mode = (*key, None)[:3]
    return not hostname, str(hostname or ""), str(ip or ""), mode is None, str(mode or "")


def _port_order(key: tuple[JSON, ...]) -> tuple[JSON, str, bool, str]:
    port, protocol, error = key
    return port if isinstance(port, int) else 0, str(protocol or ""), error is not None, str(error or "")


def job(template: JSONObject, items: Items) -> JSONObject:
    """Job: complete when all clusters' are, failed when any is; one that has ended is not touched again."""
    if any(_has_condition(mapping(template, "status"), kind) for kind in ("Complete", "Failed")):
        return template
    statuses = _statuses(items)
    status = _merged(template, {name: sum(count(one, name) for one in statuses) for name in _JOB_COUNTERS})
    status.pop("conditions", None)
    found = [_job_condition(*one) for one in _job_findings(items)]
    if found:
        status["conditions"] = found
    started = [text(one, "startTime") for one in statuses]
    if "startTime" not in status and started and all(started) and len(started) == len(items):
        status["startTime"] = min(started)
    completed = [text(one, "completionTime") for one in statuses]
    if completed and all(completed) and len(completed) == len(items):
        status["completionTime"] = max(completed)
    return _with_status(template, status)


_JOB_COUNTERS: Final = ("active", "succeeded", "failed")


def _job_findings(items: Items) -> list[tuple[str, str, str]]:
    failed = [text(item, "clusterName") for item in items if _has_condition(mapping(item, "status"), "Failed")]
    if failed:
        return [("Failed", "JobFailed", f"Job executed failed in member clusters {','.join(failed)}")]
    if not items or not all(_has_condition(mapping(item, "status"), "Complete") for item in items):
        return []
    findings = [("Complete", "Completed", "Job completed")]
    if all(_has_condition(mapping(item, "status"), "SuccessCriteriaMet") for item in items):
        met = "All member clusters have met success criteria"
        findings.append(("SuccessCriteriaMet", "CompletionsReached", met))
    return findings


def _has_condition(status: JSONObject, kind: str) -> bool:
    return any(text(one, "type") == kind and text(one, "status") == "True" for one in objects(status, "conditions"))


def _job_condition(kind: str, reason: str, message: str) -> JSONObject:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    }  # fmt: skip


def cron_job(template: JSONObject, items: Items) -> JSONObject:
    """CronJob: the Jobs that run in all clusters, and the latest times."""
    statuses = _statuses(items)
    status = dict(mapping(template, "status"))
    status.pop("active", None)
    active = [reference for one in statuses for reference in listing(one, "active")]
    if active:
        status["active"] = active
    for name in ("lastScheduleTime", "lastSuccessfulTime"):
        if times := [text(one, name) for one in statuses if text(one, name)]:
            status[name] = max(times)
    return _with_status(template, status)


_POD_PHASES: Final = ("Failed", "Pending", "Running", "Succeeded")
_VOLUME_PHASES: Final = ("Failed", "Pending", "Available", "Bound", "Released")


def _first(order: Sequence[str], phases: Sequence[str]) -> str:
    return next((phase for phase in order if phase in phases), "")


def _phases(items: Items) -> list[str]:
    return ["Pending" if item.get("status") is None else text(item, "status", "phase") for item in items]


def pod(template: JSONObject, items: Items) -> JSONObject:
    """Pod: the phase of the one that is worst off, and how each container of each cluster stands."""
    if not items:
        return template
    status = {name: value for name, value in mapping(template, "status").items() if name not in _POD_MEMBERS}
    if phase := _first(_POD_PHASES, _phases(items)):
        status["phase"] = phase
    for member in ("initContainerStatuses", "containerStatuses"):
        found = [_container_status(container) for one in _statuses(items) for container in objects(one, member)]
        if found:
            status[member] = found
    return _with_status(template, status)


def _container_status(container: JSONObject) -> JSONObject:
    """Return whether a container is ready, and its state.

    The API's type always writes the other members; an apiserver would add them, and each aggregation would write.
    """
    return {
        "name": "", "state": mapping(container, "state"), "lastState": {}, "ready": flag(container, "ready"),
        "restartCount": 0, "image": "", "imageID": "",
    }  # fmt: skip


_POD_MEMBERS: Final = frozenset({"phase", "initContainerStatuses", "containerStatuses"})


def persistent_volume(template: JSONObject, items: Items) -> JSONObject:
    """PersistentVolume: the phase of the one that is worst off."""
    phase = _first(_VOLUME_PHASES, _phases(items))
    return _with_status(template, {**mapping(template, "status"), "phase": phase}) if phase else template


def persistent_volume_claim(template: JSONObject, items: Items) -> JSONObject:
    """PersistentVolumeClaim: lost if one is, else bound when all are; unchanged while nobody has reported."""
    statuses = _statuses(items)
    if not statuses:
        return template
    phases = [text(status, "phase") for status in statuses]
    others = [phase for phase in phases if phase != "Bound"]
    phase = "Lost" if "Lost" in phases else (others[-1] if others else "Bound")
    return _with_status(template, {**mapping(template, "status"), "phase": phase})


_PDB_COUNTERS: Final = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")


def pod_disruption_budget(template: JSONObject, items: Items) -> JSONObject:
    """PodDisruptionBudget: sums, and whose Pods are disrupted, by cluster."""
    status = {name: value for name, value in mapping(template, "status").items() if name != "disruptedPods"}
    # These four are always written: they are required members of the API's type.
    status |= {name: sum(count(one, name) for one in _statuses(items)) for name in _PDB_COUNTERS}
    disrupted = {
        f"{text(item, 'clusterName')}/{pod_name}": since
        for item in items
        for pod_name, since in mapping(mapping(item, "status"), "disruptedPods").items()
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    return _with_status(template, status)


def autoscaler(template: JSONObject, items: Items) -> JSONObject:
    """HorizontalPodAutoscaler: sums."""
    statuses = _statuses(items)
    status = dict(mapping(template, "status"))
    status |= {
        name: sum(count(one, name) for one in statuses) for name in ("currentReplicas", "desiredReplicas")
    }  # fmt: skip
    return _with_status(template, status)
