"""Reports the status of an object, and aggregates the statuses of many clusters: one rule for all kinds.

The aggregated status is the status of one cluster, the first that is unhealthy or else the first, because API servers
validate it against the schema of the kind. Counters are sums, and each condition is the worst of all clusters.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.interpret.conventions.health import FAILURES, STANDARD, HealthRule, judge_health
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects
from fleethook.model.karmada import GENERATION_ANNOTATION

_GENERATIONS: Final = ("generation", "resourceTemplateGeneration")
_COUNTER: Final = re.compile(
    r"(?:replicas|pods|nodes|instances|members|brokers|workers|shards|jobs|machines|endpoints|count|total|number|active"
    r"|succeeded|failed|completed|pending|running|ready|available|unavailable|updated|desired|scheduled|expected|current"
    r"|terminating|healthy|unhealthy|failures|restarts)$|^number|Number",
    re.IGNORECASE,
)
"""The names of integers that are summed. Others, such as a revision or a port, are those of one cluster."""
_BAD: Final = re.compile(
    r"^(?:Reconciling|Progressing|Updating|Upgrading|Deleting|Terminating|Paused|Suspended|Issuing|Not[A-Z]\w*)$"
    r"|(?:Failed|Failure|Failing|Error|Errors|Degraded|Stalled|Pressure|Unavailable|Invalid|Conflicted|Exceeded)$"
)
"""The types of conditions that are bad, or not the usual state, if they are True."""
_MAX_MESSAGE: Final = 32_768
"""The limit of ``metav1.Condition.message``."""


class _Report(NamedTuple):
    """The status of one cluster."""

    cluster: str
    status: JSONObject


def reflect_status(document: JSONObject) -> JSONObject | None:
    """Return the complete status, None if there is none.

    A status with ``observedGeneration`` gets the generations of the object and of its template, as those of Kubernetes'
    workloads, because `aggregate_status` needs them.
    """
    status = document.get("status")
    if not isinstance(status, dict) or not isinstance(status.get("observedGeneration"), int):
        return status if isinstance(status, dict) else None
    metadata = as_object(document.get("metadata"))
    found: JSONObject = {**status}
    if isinstance(metadata.get("generation"), int):
        found["generation"] = metadata["generation"]
    written = as_object(metadata.get("annotations")).get(GENERATION_ANNOTATION)
    if isinstance(written, str) and written.isdecimal():
        found["resourceTemplateGeneration"] = int(written)
    return found


def aggregate_status(
    template: JSONObject,
    items: Sequence[JSONObject],
    rule: HealthRule = STANDARD,
    counters: frozenset[str] = frozenset(),
) -> JSONObject:
    """Return the template with the aggregated status of all clusters; unchanged while no cluster has a status.

    Args:
        template: The resource template.
        items: The AggregatedStatusItems.
        rule: Decides which cluster is unhealthy.
        counters: Names of further integers to sum.
    """
    reports = [
        _Report(str(one.get("clusterName") or "?"), one["status"])
        for _, one in enumerate_objects(list(items))
        if isinstance(one.get("status"), dict) and one["status"]
    ]
    if not reports:
        return template
    statuses = [report.status for report in reports]
    shown = next((one for one in statuses if not _is_healthy(template, one, rule)), statuses[0])
    merged = _merge(shown, statuses, lambda name: name in counters or _COUNTER.search(name) is not None)
    for name in (*_GENERATIONS, "observedGeneration"):
        merged.pop(name, None)
    # Definitions such as those of Cluster API refuse 0.
    if any("observedGeneration" in one for one in statuses) and (
        seen := _aggregate_generation(template, statuses, len(items))
    ):
        merged["observedGeneration"] = seen
    if conditions := list(_aggregate_conditions(reports, len(items), rule)):
        merged["conditions"] = conditions
    return {**template, "status": merged} if merged else template


def _is_healthy(template: JSONObject, status: JSONObject, rule: HealthRule) -> bool:
    observed = {**template, "metadata": {"generation": status.get("generation")}, "status": status}
    return judge_health(observed, rule).healthy


def _merge(shown: JSONObject, statuses: Sequence[JSONObject], is_counter: Callable[[str], bool]) -> JSONObject:
    """Return a status with the sums of the counters of all statuses. Controllers omit counters that are 0."""
    merged: JSONObject = {}
    for name in dict.fromkeys([*shown, *(name for one in statuses for name in one)]):
        values = [one[name] for one in statuses if name in one]
        if is_counter(name) and all(type(value) is int for value in values):
            merged[name] = sum(values)
        elif name in shown:
            value = shown[name]
            inner = [one for one in values if isinstance(one, dict)]
            merged[name] = _merge(value, inner, is_counter) if isinstance(value, dict) else value
    return merged


def _aggregate_generation(template: JSONObject, statuses: Sequence[JSONObject], clusters: int) -> JSON:
    """Return the template's generation once every cluster has observed it, before that the known number or 0."""
    wanted = _read_number(as_object(template.get("metadata")), "generation")
    seen = sum(
        _read_number(one, "observedGeneration") >= _read_number(one, "generation")
        and _read_number(one, "resourceTemplateGeneration") >= wanted
        for one in statuses
    )
    if seen == clusters:
        return wanted
    return _read_number(as_object(template.get("status")), "observedGeneration")


def _read_number(document: Mapping[str, JSON], name: str) -> int:
    value = document.get(name)
    return value if type(value) is int else 0


def _aggregate_conditions(reports: Sequence[_Report], clusters: int, rule: HealthRule) -> Iterator[JSONObject]:
    """Yield the worst condition of each type. Messages name the clusters where a condition is not in its good state."""
    found: dict[str, list[tuple[int, str, JSONObject]]] = {}
    for report in reports:
        for _, one in enumerate_objects(report.status.get("conditions")):
            kind = one.get("type")
            if isinstance(kind, str):
                rank = _rank(one, bad=is_bad_if_true(kind, rule))
                found.setdefault(kind, []).append((rank, report.cluster, one))
    for kind, ranked in found.items():
        rank, _, worst = max(ranked, key=lambda one: one[0])  # the first of equals
        made = {name: value for name, value in worst.items() if name != "observedGeneration"}
        messages = [
            f"{cluster}: {one.get('message') or one.get('reason') or one.get('status')}"
            for place, cluster, one in ranked
            if place > 0
        ]
        if rank == 0 and len(ranked) < clusters and not is_bad_if_true(kind, rule):
            made["status"] = "Unknown"
            if "reason" in made:  # Some definitions have no such member.
                made["reason"] = "NotReported"
            messages = [f"{len(ranked)} of {clusters} clusters report it"]
        if messages:
            made["message"] = "; ".join(messages)[:_MAX_MESSAGE]
        yield made


def is_bad_if_true(kind: str, rule: HealthRule) -> bool:
    """Return whether True is the bad state of a condition type."""
    if kind in rule.must_be_true or kind in rule.must_not_be_false:
        return False
    return kind in FAILURES or kind in rule.must_not_be_true or _BAD.search(kind) is not None


def _rank(condition: JSONObject, *, bad: bool) -> int:
    """Return 0 for the good state, 1 for an unknown one and 2 for the bad one."""
    status = condition.get("status")
    if status not in ("True", "False"):
        return 1
    return 0 if (status == "False") is bad else 2
