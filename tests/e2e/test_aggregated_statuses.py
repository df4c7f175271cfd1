"""kube-apiserver accepts each aggregated status: generated reports of member clusters, written to the status subresource."""

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from fleethook.engines.interpret.conventions.health_and_aggregated_status import HealthRule, aggregate_status
from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.karmada import Operation
from tests.e2e.cluster import CRDS, Api, is_established
from tests.waiting import wait_for

SEQUENCES: Final = 12
STEPS: Final = 5
JSONObject = dict[str, Any]
Report = Callable[[random.Random], JSONObject]

TEMPLATE: Final = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"},
}
SELECTED: Final = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
RUN_ONCE: Final = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def time(day: int) -> str:
    return f"2026-01-{day:02}T00:00:00Z"


def condition(kind: str, day: int | None = None) -> JSONObject:
    return {"type": kind, "status": "True"} | ({} if day is None else {"lastTransitionTime": time(day)})


def job(draw: random.Random) -> JSONObject:
    """A Job of a cluster before or after Kubernetes 1.31, which sets the target of a Job before its end."""
    start, end = draw.randint(1, 9), draw.randint(10, 28)
    new = draw.random() < 0.5
    state = draw.choice(["new", "suspended", "active", "failing", "failed", "complete", "complete"])
    started = {} if draw.random() < 0.2 else {"startTime": time(start)}
    counters = {"succeeded": draw.randint(0, 3), "failed": draw.randint(0, 3)}
    if state == "new":
        return {}
    if state == "suspended":
        return {"conditions": [condition("Suspended", start)]}
    if state == "active":
        return {**started, **counters, "active": draw.randint(1, 3), "ready": 1}
    if state == "failing":
        return {**started, **counters, "active": 1, "conditions": [condition("FailureTarget", end)]}
    if state == "failed":
        targets = [condition("FailureTarget", end)] if new else []
        return {**started, **counters, "conditions": [*targets, condition("Failed", draw.choice([end, None]))]}
    targets = [condition("SuccessCriteriaMet", end)] if new else []
    ended = {} if draw.random() < 0.2 else {"completionTime": time(end)}
    return {**started, **ended, **counters, "conditions": [*targets, condition("Complete", end)]}


def replicas(*smaller: str) -> Report:
    def report(draw: random.Random) -> JSONObject:
        total = draw.randint(0, 5)
        ready = draw.randint(0, total)
        counters = {name: draw.randint(0, ready if name == "availableReplicas" else total) for name in smaller}
        return {
            "replicas": total, "readyReplicas": ready, **counters, "observedGeneration": draw.randint(0, 2),
            "generation": 1, "resourceTemplateGeneration": draw.randint(0, 2),
        }  # fmt: skip

    return report


def pod(draw: random.Random) -> JSONObject:
    states = [
        {"running": {"startedAt": time(1)}}, {"waiting": {"reason": "CrashLoopBackOff"}},
        {"terminated": {"exitCode": draw.randint(0, 1), "finishedAt": time(2), "startedAt": time(1)}}, {},
    ]  # fmt: skip
    statuses = [
        {
            "name": "c",
            "ready": draw.random() < 0.5,
            "state": draw.choice(states),
            "restartCount": 1,
            "image": "i",
            "imageID": "x",
        }
    ]
    if draw.random() < 0.3:
        statuses.append({**statuses[0], "name": "d", "state": draw.choice(states)})
    return {"phase": draw.choice(["Pending", "Running", "Succeeded", "Failed"]), "containerStatuses": statuses}


def addresses(draw: random.Random) -> JSONObject:
    found = [
        draw.choice([{"ip": f"10.0.0.{draw.randint(1, 3)}", "ipMode": draw.choice(["VIP", "Proxy"])},
                     {"ip": "fd00::1"}, {"hostname": f"h{draw.randint(1, 3)}.example.org"}])
        for _ in range(draw.randint(0, 3))
    ]  # fmt: skip
    for one in found:
        if draw.random() < 0.3:
            one["ports"] = [{"port": draw.randint(1, 9), "protocol": "TCP"}]
    return {"loadBalancer": {"ingress": found} if found else {}}


def ingress_addresses(draw: random.Random) -> JSONObject:
    found = addresses(draw)
    for one in found["loadBalancer"].get("ingress", []):
        one.pop("ipMode", None)
    return found


def cron_job(draw: random.Random) -> JSONObject:
    active = [{"apiVersion": "batch/v1", "kind": "Job", "name": f"j{draw.randint(1, 3)}", "namespace": "default"}]
    times = {
        name: time(draw.randint(1, 28)) for name in ("lastScheduleTime", "lastSuccessfulTime") if draw.random() < 0.5
    }
    return {"active": active[: draw.randint(0, 1)], **times}


def daemons(draw: random.Random) -> JSONObject:
    wanted = draw.randint(0, 4)
    members = ("currentNumberScheduled", "numberAvailable", "numberMisscheduled", "numberReady", "updatedNumberScheduled",
               "numberUnavailable")  # fmt: skip
    return {"desiredNumberScheduled": wanted, **{name: draw.randint(0, wanted) for name in members}}


def budget(draw: random.Random) -> JSONObject:
    members = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    pods = {"p": time(draw.randint(1, 9))} if draw.random() < 0.5 else {}
    return {**{name: draw.randint(0, 4) for name in members}, "disruptedPods": pods}


def scaler(draw: random.Random) -> JSONObject:
    return {"currentReplicas": draw.randint(0, 4), "desiredReplicas": draw.randint(0, 4)}


def phase(*names: str) -> Report:
    return lambda draw: {"phase": draw.choice(names)}


KINDS: Final[dict[str, tuple[str, list[JSONObject], Report]]] = {
    "apps/v1/Deployment": ("deployments", [SELECTED], replicas("updatedReplicas", "availableReplicas", "unavailableReplicas")),
    "apps/v1/ReplicaSet": ("replicasets", [SELECTED], replicas("availableReplicas")),
    "apps/v1/StatefulSet": ("statefulsets", [{**SELECTED, "serviceName": "s"}],
                            replicas("updatedReplicas", "availableReplicas", "currentReplicas")),
    "apps/v1/DaemonSet": ("daemonsets", [SELECTED], daemons),
    "batch/v1/Job": ("jobs", [
        {"template": RUN_ONCE}, {"template": RUN_ONCE, "suspend": True},
        {"template": RUN_ONCE, "completions": 3, "parallelism": 3, "completionMode": "Indexed"},
        {"template": RUN_ONCE, "completions": 3, "completionMode": "Indexed", "successPolicy": {"rules": [{"succeededCount": 1}]}},
    ], job),
    "batch/v1/CronJob": ("cronjobs", [{"schedule": "* * * * *", "jobTemplate": {"spec": {"template": RUN_ONCE}}}], cron_job),
    "/v1/Pod": ("pods", [{"containers": [{"name": name, "image": "i"} for name in "cd"], "restartPolicy": policy} for policy in ("Always", "OnFailure", "Never")], pod),
    "/v1/Service": ("services", [{"type": "LoadBalancer", "ports": [{"port": 80}]}], addresses),
    "networking.k8s.io/v1/Ingress": ("ingresses", [
        {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    ], ingress_addresses),
    "/v1/PersistentVolumeClaim": ("persistentvolumeclaims", [CLAIM], phase("Pending", "Bound", "Lost")),
    "/v1/PersistentVolume": ("persistentvolumes", [
        {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/p"}}
    ], phase("Pending", "Available", "Bound", "Released", "Failed")),
    "policy/v1/PodDisruptionBudget": ("poddisruptionbudgets", [{"minAvailable": 1, "selector": {}}], budget),
    "autoscaling/v2/HorizontalPodAutoscaler": ("horizontalpodautoscalers", [
        {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    ], scaler),
}  # fmt: skip
"""Plural, specs and reports of each kind."""


def kind_of(name: str) -> GroupVersionKind:
    api_version, _, kind = name.rpartition("/")
    return GroupVersionKind(*parse_api_version(api_version.removeprefix("/")), kind)


def test_each_kind_that_is_aggregated_is_generated() -> None:
    assert {kind_of(name) for name in KINDS} == {
        kind for kind, rules in NATIVE.items() if Operation.AGGREGATE_STATUS in rules
    }


WIDGETS: Final = "/apis/widgets.example.com/v1"
PHASES: Final = ("Pending", "Running", "Failed")
CONDITION: Final = {
    "type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024,
                   "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316},
    },
}  # fmt: skip
"""metav1.Condition, as controller-gen writes it."""
WIDGET_STATUS: Final = {
    "type": "object", "required": ["phase"],
    "properties": {
        "phase": {"type": "string", "enum": [*PHASES]},
        "observedGeneration": {"type": "integer", "format": "int64"},
        "readyReplicas": {"type": "integer", "format": "int32", "minimum": 0},
        "revision": {"type": "integer", "format": "int32", "maximum": 9},
        "jobs": {"type": "object", "required": ["name"],
                 "properties": {"name": {"type": "string", "minLength": 1}, "failed": {"type": "integer"}}},
        "conditions": {"type": "array", "items": CONDITION, "x-kubernetes-list-type": "map",
                       "x-kubernetes-list-map-keys": ["type"]},
    },
}  # fmt: skip


def widget(draw: random.Random) -> JSONObject:
    """The status of a custom resource, as a cluster reports it."""
    found = {
        "phase": draw.choice(PHASES), "revision": draw.randint(1, 9), "observedGeneration": draw.randint(0, 2), "generation": 1,
        "resourceTemplateGeneration": draw.randint(0, 2),
        "conditions": [
            {**condition(kind, draw.randint(1, 28)), "status": draw.choice(["True", "False", "Unknown"]), "reason": "Because",
             "message": draw.choice(["", "why", "x" * 20_000]), "observedGeneration": 1}
            for kind in ("Ready", "Stalled", "DiskPressure") if draw.random() < 0.7
        ],
    }  # fmt: skip
    if draw.random() < 0.7:
        found["readyReplicas"] = draw.randint(0, 3)
    if draw.random() < 0.5:
        found["jobs"] = {"name": "j"} | ({"failed": draw.randint(0, 3)} if draw.random() < 0.5 else {})
    return found


def test_the_aggregated_status_of_a_custom_resource_is_accepted(api: Api, namespace: str) -> None:
    """One rule aggregates the statuses of all kinds without a script, and keeps to the schema of the kind."""
    api.create(CRDS, {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.widgets.example.com"},
        "spec": {
            "group": "widgets.example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "status": WIDGET_STATUS,
                }}},
            }],
        },
    })  # fmt: skip
    wait_for(lambda: is_established(api, "widgets.widgets.example.com"), what="the definition is established")
    rule = HealthRule(must_be_true=("Ready",))
    document = {"apiVersion": "widgets.example.com/v1", "kind": "Widget"}
    refused = write_statuses(
        api, f"{WIDGETS}/namespaces/{namespace}/widgets", [{}], (document, widget), partial(aggregate_status, rule=rule)
    )
    assert not refused, refused[:3]


@pytest.mark.parametrize("name", KINDS)
def test_each_aggregated_status_is_accepted(api: Api, namespace: str, name: str) -> None:
    plural, specs, report = KINDS[name]
    kind = kind_of(name)
    base = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    scope = base if plural == "persistentvolumes" else f"{base}/namespaces/{namespace}"
    if plural == "pods":
        api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    document = {"apiVersion": kind.api_version, "kind": kind.kind}
    refused = write_statuses(
        api, f"{scope}/{plural}", specs, (document, report), NATIVE[kind][Operation.AGGREGATE_STATUS]
    )
    assert not refused, refused[:3]


def write_statuses(
    api: Api,
    path: str,
    specs: list[JSONObject],
    generated: tuple[JSONObject, Report],
    aggregate: Callable[..., JSONObject],
) -> list[Any]:
    """Create objects, write the aggregated statuses of generated reports to them, and return the refusals."""
    document, report = generated
    refused = []
    for number in range(SEQUENCES * len(specs)):
        draw = random.Random(f"{path.rpartition('/')[2]} {number}")
        spec = copy.deepcopy(specs[number % len(specs)])
        made = api.create(path, {**document, "metadata": {"generateName": "status-"}, "spec": spec})
        own = f"{path}/{made['metadata']['name']}"
        reports: dict[str, JSONObject] = {}
        for _ in range(STEPS):
            # A cluster joins, reports something new, or leaves.
            cluster = f"m{draw.randint(1, 3)}"
            reports[cluster] = {"clusterName": cluster} | ({"status": report(draw)} if draw.random() < 0.9 else {})
            if draw.random() < 0.15:
                reports.pop(draw.choice([*reports]))
            stored = api[own]
            aggregated = aggregate(stored, list(reports.values()))
            status, answer, _ = api.call("PUT", f"{own}/status", aggregated)
            if status >= 300:
                refused.append(
                    (number, answer["message"], stored.get("status"), aggregated.get("status"), [*reports.values()])
                )
                break
            assert aggregate(answer, list(reports.values())) == answer, (number, reports)
        api.delete(own)
    return refused
