"""Aggregates the statuses of the member clusters.

Each function takes the resource template and the AggregatedStatusItems, and returns the template with its status. If
nothing changes, it returns the same object. The item of a cluster that has not reported has no ``status``.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/aggregatestatus.go, pkg/util/helper.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from fleethook.engines.interpret.native.status import DAEMONS, DAEMONS_ALWAYS, REPLICAS, STATEFUL_SET_ALWAYS
from fleethook.interpret.typed_fields import count, flag, listing, mapping, objects, text
from fleethook.model.json import JSON, JSONObject

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


deployment: Final = workload(*REPLICAS, "unavailableReplicas")
replica_set: Final = workload("replicas", "readyReplicas", "availableReplicas", always=frozenset({"replicas"}))
stateful_set: Final = workload(*REPLICAS, "currentReplicas", always=STATEFUL_SET_ALWAYS)
daemon_set: Final = workload(*DAEMONS, always=DAEMONS_ALWAYS)


def service(template: JSONObject, items: Items) -> JSONObject:
    """Collect the load balancer addresses of a Service; other types are unchanged."""
    if text(template, "spec", "type") != "LoadBalancer":
        return template
    merged = _merge_load_balancers(template, items, "hostname", "ip", "ipMode")
    # The apiserver adds the default mode to an address of a cluster before Kubernetes 1.30.
    return template if _without_default_mode(merged) == _without_default_mode(template) else merged


def _without_default_mode(service: JSONObject) -> list[JSONObject]:
    addresses = objects(service, "status", "loadBalancer", "ingress")
    return [
        {name: value for name, value in address.items() if (name, value) != ("ipMode", "VIP")} for address in addresses
    ]


def ingress(template: JSONObject, items: Items) -> JSONObject:
    """Collect the load balancer addresses of an Ingress."""
    return _merge_load_balancers(template, items, "hostname", "ip")


def _merge_load_balancers(template: JSONObject, items: Items, *identity: str) -> JSONObject:
    statuses = _list_statuses(items)
    if not statuses:
        return template  # The known addresses stay until a cluster reports.
    found: dict[tuple[JSON, ...], dict[tuple[JSON, ...], JSONObject]] = {}
    for status in statuses:
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
    """Mark a Job complete if it is complete in all clusters, failed if it failed in any and no Pod is active.

    Until no Pod is active, a failed Job has the condition FailureTarget. A finished Job is unchanged. Since Kubernetes
    1.31, the apiserver refuses other statuses (pkg/apis/batch/validation: validateJobStatus). It also refuses counters
    that decrease, for example because the Job left a cluster.
    """
    current = mapping(template, "status")
    if any(_has_condition(current, kind) for kind in ("Complete", "Failed")):
        return template
    statuses = _list_statuses(items)
    counters = {name: sum(count(one, name) for one in statuses) for name in _JOB_COUNTERS}
    counters |= {name: max(counters[name], count(current, name)) for name in ("succeeded", "failed")}
    status = _merge_counters(template, counters)
    for name in ("conditions", "completionTime"):
        status.pop(name, None)
    # No Pod is ready then, and the API refuses more ready Pods than active ones.
    if count(status, "ready") > counters["active"]:
        del status["ready"]
    conditions = _make_job_conditions(current, items, is_active=counters["active"] > 0)
    if conditions:
        status["conditions"] = conditions
    started = sorted(filter(None, (text(one, "startTime") for one in statuses)))
    is_finished = any(_has_condition(status, kind) for kind in ("Complete", "Failed"))
    if "startTime" not in status and (len(started) == len(items) > 0 or is_finished):
        status["startTime"] = min(started or _list_ends(statuses) or [_now()])
    if _has_condition(status, "Complete"):
        status["completionTime"] = max([text(status, "startTime"), *_list_ends(statuses)])
    return _set_status(template, status)


_JOB_COUNTERS: Final = ("active", "succeeded", "failed")


def _list_ends(statuses: Sequence[JSONObject]) -> list[str]:
    """Return the times at which the Jobs of the clusters completed or failed, as far as they are known."""
    times = [text(status, "completionTime") or _find_end(objects(status, "conditions")) for status in statuses]
    return [time for time in times if time]


def _find_end(conditions: Sequence[JSONObject]) -> str:
    ended = (condition for condition in conditions if text(condition, "type") in ("Complete", "Failed"))
    return next((text(one, "lastTransitionTime") for one in ended), "")


def _make_job_conditions(current: JSONObject, items: Items, *, is_active: bool) -> list[JSONObject]:
    """Return the conditions of an unfinished Job's next status. Conditions that end the Job cannot be removed later."""
    kept = {kind: one for kind in _JOB_TARGETS for one in objects(current, "conditions") if _is_true(one, kind)}
    failed = [text(item, "clusterName") for item in items if _has_condition(mapping(item, "status"), "Failed")]
    if "FailureTarget" in kept or (failed and "SuccessCriteriaMet" not in kept):
        message = f"Job executed failed in member clusters {','.join(failed)}"
        target = kept.get("FailureTarget") or _make_job_condition("FailureTarget", "JobFailed", message)
        if is_active:
            return [target]
        return [_make_job_condition("Failed", "JobFailed", message if failed else text(target, "message")), target]
    done = [mapping(item, "status") for item in items if _has_condition(mapping(item, "status"), "Complete")]
    if is_active or not items or len(done) < len(items):
        return list(kept.values())
    met = all(_has_condition(one, "SuccessCriteriaMet") for one in done)
    message = "All member clusters have met success criteria" if met else "Job completed"
    target = kept.get("SuccessCriteriaMet") or _make_job_condition("SuccessCriteriaMet", "CompletionsReached", message)
    return [_make_job_condition("Complete", "Completed", "Job completed"), target]


_JOB_TARGETS: Final = ("FailureTarget", "SuccessCriteriaMet")


def _is_true(condition: JSONObject, kind: str) -> bool:
    return text(condition, "type") == kind and text(condition, "status") == "True"


def _has_condition(status: JSONObject, kind: str) -> bool:
    return any(_is_true(one, kind) for one in objects(status, "conditions"))


def _make_job_condition(kind: str, reason: str, message: str) -> JSONObject:
    now = _now()
    return {
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    for member, containers in (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers")):
        reported = [container for one in _list_statuses(items) for container in objects(one, member)]
        stored = objects(template, "status", member)
        # Karmada omits names. The apiserver compares terminated containers by name, and names stay then.
        named = any(text(one, "name") for one in stored)
        if named or any("terminated" in mapping(one, "state") for one in (*reported, *stored)):
            reported = _merge_containers(template, objects(template, "spec", containers), reported, stored)
        else:
            reported = [{**container, "name": ""} for container in reported]
        if reported:
            status[member] = [_make_container_status(container) for container in reported]
    return _set_status(template, status)


def _make_container_status(container: JSONObject) -> JSONObject:
    """Return the readiness and the state of a container, and the zeros of the other members.

    The API's type always writes these members. Without them the API server adds them, and each aggregation writes.
    """
    return {
        "name": text(container, "name"), "state": mapping(container, "state"), "lastState": {},
        "ready": flag(container, "ready"), "restartCount": 0, "image": "", "imageID": "",
    }  # fmt: skip


def _merge_containers(
    template: JSONObject, containers: Sequence[JSONObject], reported: Sequence[JSONObject], stored: Sequence[JSONObject]
) -> list[JSONObject]:
    """Return one status for each container, the worst of all clusters.

    The state of a terminated container that may not restart stays, because the apiserver refuses to change it
    (pkg/apis/core/validation: ValidateContainerStateTransition). The apiserver finds the container by its name.
    """
    specs = {text(container, "name"): container for container in containers}
    ended = {text(one, "name"): one for one in stored if "terminated" in mapping(one, "state")}
    by_name: dict[str | int, list[JSONObject]] = {}
    for number, one in enumerate(reported):
        # A cluster names each container; statuses without names are not merged.
        by_name.setdefault(text(one, "name") or number, []).append(one)
    found = []
    for statuses in by_name.values():
        name = text(statuses[0], "name")
        worst = min(statuses, key=_rank_state)
        if name in ended and not _may_restart(template, specs.get(name, {}), ended[name]):
            worst = worst if "terminated" in mapping(worst, "state") else ended[name]
        found.append({**worst, "ready": all(flag(status, "ready") for status in statuses)})
    return found


def _rank_state(container: JSONObject) -> int:
    """Return the rank of a container's state, 0 for the worst."""
    state = mapping(container, "state")
    if "terminated" in state:
        return 0 if count(state, "terminated", "exitCode") else 4
    return next((rank for rank, name in enumerate(("waiting", "running"), 1) if name in state), 3)


def _may_restart(template: JSONObject, container: JSONObject, ended: JSONObject) -> bool:
    policy = text(container, "restartPolicy") or text(template, "spec", "restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and count(ended, "state", "terminated", "exitCode") != 0)


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
