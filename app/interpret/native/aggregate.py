"""Aggregates the statuses of the member clusters.

Each function takes the resource template and the AggregatedStatusItems, and returns the template with its status. If
nothing changes, it returns the same object. The item of a cluster that has not reported has no ``status``.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/aggregatestatus.go, pkg/util/helper.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from app.interpret.access import count, flag, listing, mapping, objects, text
from app.model.json import JSON, JSONObject

Items = Sequence[JSONObject]


def _list_statuses(items: Items) -> list[JSONObject]:
    return [mapping(item, "status") for item in items if item.get("status") is not None]


def _set_status(template: JSONObject, status: JSONObject) -> JSONObject:
    """Return the template with a status; the same template if its status is equal as the API's type."""
    before = mapping(template, "status")
    return (
        template if before == status or _omit_empty(before) == _omit_empty(status) else {**template, "status": status}
    )


def _omit_empty(value: JSON) -> JSON:
    """Return a value without members that are zero or empty, because the API's types omit them."""
    if isinstance(value, list):
        return [_omit_empty(element) for element in value]
    if not isinstance(value, dict):
        return value
    members = {name: _omit_empty(member) for name, member in value.items()}
    return {name: member for name, member in members.items() if member}


def _merge_counters(template: JSONObject, counters: JSONObject, always: frozenset[str] = frozenset()) -> JSONObject:
    """Return the template's status with counters, without zeros except for the members in ``always``."""
    kept = {name: value for name, value in mapping(template, "status").items() if name not in counters}
    return kept | {name: value for name, value in counters.items() if value or name in always}


def workload(*members: str, always: frozenset[str] = frozenset()) -> Callable[[JSONObject, Items], JSONObject]:
    """Return a function that sums counters, and sets observedGeneration once all clusters have the newest template.

    Args:
        members: The counters.
        always: The counters whose zeros the API's type always writes.
    """

    def aggregate(template: JSONObject, items: Items) -> JSONObject:
        statuses = _list_statuses(items)
        counters = {name: _sum_counter(statuses, name) for name in members}
        generation = count(template, "metadata", "generation")
        aligned = sum(_is_aligned(status, generation) for status in statuses)
        observed = generation if aligned == len(items) else count(template, "status", "observedGeneration")
        return _set_status(template, _merge_counters(template, {**counters, "observedGeneration": observed}, always))

    return aggregate


def _sum_counter(statuses: Sequence[JSONObject], name: str) -> int:
    found = [status.get(name) or 0 for status in statuses]
    # Fast path for integers; otherwise `count` raises the error that names the member.
    return sum(found) if all(type(value) is int for value in found) else sum(count(one, name) for one in statuses)


def _is_aligned(status: JSONObject, generation: int) -> bool:
    """Return whether a cluster's controller has observed the object of the newest template."""
    seen = count(status, "observedGeneration") >= count(status, "generation")
    return seen and count(status, "resourceTemplateGeneration") >= generation


def service(template: JSONObject, items: Items) -> JSONObject:
    """Collect the load balancer addresses of a Service; other types are unchanged."""
    if text(template, "spec", "type") != "LoadBalancer":
        return template
    return _merge_load_balancers(template, items, "hostname", "ip", "ipMode")


def ingress(template: JSONObject, items: Items) -> JSONObject:
    """Collect the load balancer addresses of an Ingress."""
    return _merge_load_balancers(template, items, "hostname", "ip")


def _merge_load_balancers(template: JSONObject, items: Items, *identity: str) -> JSONObject:
    found: dict[tuple[JSON, ...], dict[tuple[JSON, ...], JSONObject]] = {}
    for status in _list_statuses(items):
        for address in objects(status, "loadBalancer", "ingress"):
            ports = found.setdefault(tuple(text(address, name) or None for name in identity), {})
            for port in objects(address, "ports"):
                key = count(port, "port"), text(port, "protocol"), text(port, "error") or None
                ports.setdefault(key, port)
    addresses = []
    for key in sorted(found, key=_make_address_key):
        merged: JSONObject = {name: value for name, value in zip(identity, key, strict=True) if value is not None}
        if ports := found[key]:
            merged["ports"] = [ports[one] for one in sorted(ports, key=_make_port_key)]
        addresses.append(merged)
    return _set_status(template, {"loadBalancer": {"ingress": addresses} if addresses else {}})


def _make_address_key(key: tuple[JSON, ...]) -> tuple[bool, str, str, bool, str]:
    hostname, ip, mode = (*key, None)[:3]
    return not hostname, str(hostname or ""), str(ip or ""), mode is None, str(mode or "")


def _make_port_key(key: tuple[JSON, ...]) -> tuple[JSON, str, bool, str]:
    port, protocol, error = key
    return port if isinstance(port, int) else 0, str(protocol or ""), error is not None, str(error or "")


def job(template: JSONObject, items: Items) -> JSONObject:
    """Mark a Job complete if it is complete in all clusters, failed if it failed in any.

    A finished Job is unchanged.
    """
    if any(_has_condition(mapping(template, "status"), kind) for kind in ("Complete", "Failed")):
        return template
    statuses = _list_statuses(items)
    status = _merge_counters(template, {name: sum(count(one, name) for one in statuses) for name in _JOB_COUNTERS})
    status.pop("conditions", None)
    found = [_make_job_condition(*one) for one in _find_job_conditions(items)]
    if found:
        status["conditions"] = found
    started = [text(one, "startTime") for one in statuses]
    if "startTime" not in status and started and all(started) and len(started) == len(items):
        status["startTime"] = min(started)
    completed = [text(one, "completionTime") for one in statuses]
    if completed and all(completed) and len(completed) == len(items):
        status["completionTime"] = max(completed)
    return _set_status(template, status)


_JOB_COUNTERS: Final = ("active", "succeeded", "failed")


def _find_job_conditions(items: Items) -> list[tuple[str, str, str]]:
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


def _make_job_condition(kind: str, reason: str, message: str) -> JSONObject:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    }  # fmt: skip


def cron_job(template: JSONObject, items: Items) -> JSONObject:
    """Collect the active Jobs of a CronJob, and the latest times."""
    statuses = _list_statuses(items)
    status = dict(mapping(template, "status"))
    status.pop("active", None)
    active = [reference for one in statuses for reference in listing(one, "active")]
    if active:
        status["active"] = active
    for name in ("lastScheduleTime", "lastSuccessfulTime"):
        if times := [text(one, name) for one in statuses if text(one, name)]:
            status[name] = max(times)
    return _set_status(template, status)


_POD_PHASES: Final = ("Failed", "Pending", "Running", "Succeeded")
_VOLUME_PHASES: Final = ("Failed", "Pending", "Available", "Bound", "Released")


def _find_first(order: Sequence[str], phases: Sequence[str]) -> str:
    return next((phase for phase in order if phase in phases), "")


def _list_phases(items: Items) -> list[str]:
    return ["Pending" if item.get("status") is None else text(item, "status", "phase") for item in items]


def pod(template: JSONObject, items: Items) -> JSONObject:
    """Take the worst phase of a Pod, and collect the container statuses of all clusters."""
    if not items:
        return template
    status = {name: value for name, value in mapping(template, "status").items() if name not in _POD_MEMBERS}
    if phase := _find_first(_POD_PHASES, _list_phases(items)):
        status["phase"] = phase
    for member in ("initContainerStatuses", "containerStatuses"):
        found = [
            _make_container_status(container) for one in _list_statuses(items) for container in objects(one, member)
        ]
        if found:
            status[member] = found
    return _set_status(template, status)


def _make_container_status(container: JSONObject) -> JSONObject:
    """Return the readiness and the state of a container, and the zeros of the other members.

    The API's type always writes these members. Without them the API server adds them, and each aggregation writes.
    """
    return {
        "name": "", "state": mapping(container, "state"), "lastState": {}, "ready": flag(container, "ready"),
        "restartCount": 0, "image": "", "imageID": "",
    }  # fmt: skip


_POD_MEMBERS: Final = frozenset({"phase", "initContainerStatuses", "containerStatuses"})


def persistent_volume(template: JSONObject, items: Items) -> JSONObject:
    """Take the worst phase of a PersistentVolume."""
    phase = _find_first(_VOLUME_PHASES, _list_phases(items))
    return _set_status(template, {**mapping(template, "status"), "phase": phase}) if phase else template


def persistent_volume_claim(template: JSONObject, items: Items) -> JSONObject:
    """Mark a PersistentVolumeClaim Lost if it is lost in any cluster, Bound if bound in all.

    Without a report of any cluster, the claim is unchanged.
    """
    statuses = _list_statuses(items)
    if not statuses:
        return template
    phases = [text(status, "phase") for status in statuses]
    others = [phase for phase in phases if phase != "Bound"]
    phase = "Lost" if "Lost" in phases else (others[-1] if others else "Bound")
    return _set_status(template, {**mapping(template, "status"), "phase": phase})


_PDB_COUNTERS: Final = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")


def pod_disruption_budget(template: JSONObject, items: Items) -> JSONObject:
    """Sum the counters of a PodDisruptionBudget, and collect the disrupted Pods by cluster."""
    status = {name: value for name, value in mapping(template, "status").items() if name != "disruptedPods"}
    # These four members are required by the API's type.
    status |= {name: sum(count(one, name) for one in _list_statuses(items)) for name in _PDB_COUNTERS}
    disrupted = {
        f"{text(item, 'clusterName')}/{pod_name}": since
        for item in items
        for pod_name, since in mapping(mapping(item, "status"), "disruptedPods").items()
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    return _set_status(template, status)


def autoscaler(template: JSONObject, items: Items) -> JSONObject:
    """Sum the replicas of a HorizontalPodAutoscaler."""
    statuses = _list_statuses(items)
    status = dict(mapping(template, "status"))
    status |= {
        name: sum(count(one, name) for one in statuses) for name in ("currentReplicas", "desiredReplicas")
    }  # fmt: skip
    return _set_status(template, status)
