"""Judges and reports the status of an object, and aggregates the statuses of many clusters: one rule for all kinds.

The aggregated status is the status of one cluster, because API servers validate it against the schema of the kind. It
is that of the first unhealthy cluster, or of the first one if all are healthy. Counters are sums, and each condition is
the worst of all clusters.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.interpret.typed_fields import find_values
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects
from fleethook.model.karmada import GENERATION_ANNOTATION

FAILURES: Final = ("Stalled", "Failed", "Degraded")
"""Conditions that are bad if they are True, for every kind."""
_PAUSED: Final = ("/spec/suspend", "/spec/suspended", "/spec/pause", "/spec/paused", "/spec/runPolicy/suspend")
_NOT_PAUSED: Final = (False, None, "false", "False", "off")
_HOLDING: Final = re.compile("suspend|pause|stopped|cancel", re.IGNORECASE)
_FAILING: Final = re.compile("fail|error", re.IGNORECASE)


class HealthRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The conditions and members that decide about the health of a kind.

    Attributes:
        must_be_true: Types of conditions that an object must have, with status True.
        must_not_be_false: Types of conditions that may be absent, but not False.
        must_not_be_true: Types of conditions that may be absent, but not True, besides `FAILURES`.
        values: The healthy values of members, by JSON pointer; ``""`` in a list accepts a missing member.
        paused: JSON pointers of further members and annotations that pause or suspend an object.
        late_generation: Whether a difference of ``observedGeneration`` does not count: the controller reports it only
            when it has applied a change, or reports that of another object.
    """

    must_be_true: tuple[str, ...] = ()
    must_not_be_false: tuple[str, ...] = ()
    must_not_be_true: tuple[str, ...] = ()
    values: Mapping[str, tuple[str | bool | int, ...]] = {}
    paused: tuple[str, ...] = ()
    late_generation: bool = False

    @property
    def decides(self) -> bool:
        """Whether the rule names the signs of health, so that Ready, Available and the like do not decide."""
        return bool(self.must_be_true or self.must_not_be_false or self.values)


STANDARD: Final = HealthRule()
"""The rule for kinds about which nothing else is known."""


class HealthVerdict(NamedTuple):
    """The health of an object, with the rule that decided."""

    healthy: bool
    reason: str


class _Condition(NamedTuple):
    """A condition of a status."""

    kind: str
    status: str
    reason: str
    generation: int | None
    """The generation of the object that the condition describes, None if it names none."""


def judge_health(document: JSONObject, rule: HealthRule = STANDARD) -> HealthVerdict:
    """Return whether an object is healthy, and why; it never fails.

    An object that is paused or suspended on purpose is healthy unless its status reports a failure
    (``docs/interpreters.md``).
    """
    metadata, status = as_object(document.get("metadata")), as_object(document.get("status"))
    if metadata.get("deletionTimestamp"):
        return HealthVerdict(False, "the object is being deleted")
    generation, observed = metadata.get("generation"), status.get("observedGeneration")
    conditions = _read_conditions(status)
    for kind in (*FAILURES, *rule.must_not_be_true):
        if (condition := conditions.get(kind)) is not None and condition.status == "True":
            return HealthVerdict(False, _describe(condition))
    if pause := _find_pause(document, rule, conditions):
        failure = _find_failure(document, rule, conditions)
        return HealthVerdict(not failure, failure or pause)
    known = isinstance(observed, int) and isinstance(generation, int) and not rule.late_generation
    if known and observed != generation:
        return HealthVerdict(False, f"observedGeneration is {observed}, generation is {generation}")
    return _judge_signs(document, rule, conditions, generation if isinstance(generation, int) else None)


def _find_failure(document: JSONObject, rule: HealthRule, conditions: Mapping[str, _Condition]) -> str:
    """Return the failure of an object that is paused, ``""`` if there is none."""
    for kind in (*(rule.must_be_true if rule.decides else ("Ready",)), *rule.must_not_be_false):
        condition = conditions.get(kind)
        if condition is not None and condition.status == "False" and not _HOLDING.search(condition.reason):
            return _describe(condition)
    for pointer in rule.values:
        for value in find_values(document, pointer):
            if isinstance(value, str) and _FAILING.search(value):
                return f"{pointer} is {_show(value)}"
    return ""


def _judge_signs(
    document: JSONObject, rule: HealthRule, conditions: Mapping[str, _Condition], generation: int | None
) -> HealthVerdict:
    """Return the verdict of the conditions and members. A required condition about an older generation is unhealthy."""
    if not rule.decides:
        return _judge_standard_conditions(conditions, generation)
    for kind in rule.must_be_true:
        found = conditions.get(kind)
        if found is None:
            return HealthVerdict(False, f"{kind} is missing")
        if not (verdict := _judge_condition(found, generation)).healthy:
            return verdict
    for kind in rule.must_not_be_false:
        if (found := conditions.get(kind)) is not None and found.status == "False":
            return HealthVerdict(False, _describe(found))
    for pointer, healthy in rule.values.items():
        found_values = list(find_values(document, pointer)) or [""]
        for value in found_values:
            if not any(value == one and type(value) is type(one) for one in healthy):
                return HealthVerdict(False, f"{pointer} is {_show(value)}")
    signs = [f"{kind} is True" for kind in rule.must_be_true]
    signs += [f"{kind} is not False" for kind in rule.must_not_be_false]
    return HealthVerdict(True, ", ".join([*signs, *(f"{pointer} is healthy" for pointer in rule.values)]))


def _judge_standard_conditions(conditions: Mapping[str, _Condition], generation: int | None) -> HealthVerdict:
    reconciling = conditions.get("Reconciling")
    if reconciling is not None and reconciling.status == "True":
        return HealthVerdict(False, _describe(reconciling))
    for kind in ("Ready", "Available"):
        if (condition := conditions.get(kind)) is not None:
            return _judge_condition(condition, generation)
    progressing = conditions.get("Progressing")
    if progressing is not None:
        # As for a Deployment: the first reason means that the rollout is complete, the second one that it failed.
        done = progressing.status == "True" and progressing.reason == "NewReplicaSetAvailable"
        failed = progressing.status == "False" and progressing.reason == "ProgressDeadlineExceeded"
        if failed or (progressing.status == "True" and not done):
            return HealthVerdict(False, _describe(progressing))
    return HealthVerdict(True, "no condition reports a problem")


def _judge_condition(condition: _Condition, generation: int | None) -> HealthVerdict:
    if condition.status != "True":
        return HealthVerdict(False, _describe(condition))
    if generation is not None and condition.generation is not None and condition.generation < generation:
        return HealthVerdict(False, f"{condition.kind} is about generation {condition.generation}, not {generation}")
    return HealthVerdict(True, _describe(condition))


def _describe(condition: _Condition) -> str:
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"{condition.kind} is {condition.status or 'empty'}{reason}"


def _show(value: JSON) -> str:
    return "missing" if value == "" else f"{value!r}" if isinstance(value, str) else f"{value}"[:80]


def _find_pause(document: JSONObject, rule: HealthRule, conditions: Mapping[str, _Condition]) -> str:
    """Return the member or the condition that pauses the object, ``""`` if there is none.

    A condition does not count if a member shows that the object is not paused any more.
    """
    resumed = False
    for pointer in (*_PAUSED, *rule.paused):
        for value in find_values(document, pointer):
            if value not in _NOT_PAUSED:
                return f"{pointer} is set"
            resumed = True
    for kind in () if resumed else ("Paused", "Suspended"):
        if (condition := conditions.get(kind)) is not None and condition.status == "True":
            return _describe(condition)
    return ""


def _read_conditions(status: Mapping[str, JSON]) -> dict[str, _Condition]:
    """Return the conditions by type; the first one of a type counts, as in kstatus."""
    found: dict[str, _Condition] = {}
    for condition in _list_conditions(status):
        found.setdefault(condition.kind, condition)
    return found


def _list_conditions(status: Mapping[str, JSON]) -> Iterator[_Condition]:
    for _, one in enumerate_objects(status.get("conditions")):
        kind, state, reason, generation = map(one.get, ("type", "status", "reason", "observedGeneration"))
        if isinstance(kind, str):
            yield _Condition(
                kind,
                state if isinstance(state, str) else "",
                reason if isinstance(reason, str) else "",
                generation if isinstance(generation, int) else None,
            )


_GENERATIONS: Final = ("generation", "resourceTemplateGeneration")
_COUNTER: Final = re.compile(
    r"(?:replicas|pods|nodes|instances|members|brokers|workers|shards|jobs|machines|endpoints|count|total|number|active"
    r"|succeeded|failed|completed|pending|running|ready|available|unavailable|updated|desired|scheduled|expected|current"
    r"|terminating|healthy|unhealthy|failures|restarts)$|^number|Number",
    re.IGNORECASE,
)
"""The names of integers that are summed. Other integers, such as a revision or a port, are those of one cluster."""
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
    shown = next((status for status in statuses if not _is_healthy(template, status, rule)), statuses[0])
    merged = _merge(shown, statuses, lambda name: name in counters or _COUNTER.search(name) is not None)
    for name in (*_GENERATIONS, "observedGeneration"):
        merged.pop(name, None)
    # Definitions such as those of Cluster API refuse 0.
    if any("observedGeneration" in status for status in statuses) and (
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
    for name in dict.fromkeys([*shown, *(name for status in statuses for name in status)]):
        values = [status[name] for status in statuses if name in status]
        if is_counter(name) and all(type(value) is int for value in values):
            merged[name] = sum(values)
        elif name in shown:
            value = shown[name]
            inner = [one for one in values if isinstance(one, dict)]
            merged[name] = _merge(value, inner, is_counter) if isinstance(value, dict) else value
    return merged


def _aggregate_generation(template: JSONObject, statuses: Sequence[JSONObject], clusters: int) -> JSON:
    """Return the template's generation once every cluster has observed it; until then, the stored number or 0."""
    number = _read_number(as_object(template.get("metadata")), "generation")
    seen = sum(
        _read_number(status, "observedGeneration") >= _read_number(status, "generation")
        and _read_number(status, "resourceTemplateGeneration") >= number
        for status in statuses
    )
    if seen == clusters:
        return number
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
        merged = {name: value for name, value in worst.items() if name != "observedGeneration"}
        messages = [
            f"{cluster}: {one.get('message') or one.get('reason') or one.get('status')}"
            for place, cluster, one in ranked
            if place > 0
        ]
        if rank == 0 and len(ranked) < clusters and not is_bad_if_true(kind, rule):
            merged["status"] = "Unknown"
            if "reason" in merged:  # Some definitions have no such member.
                merged["reason"] = "NotReported"
            messages = [f"{len(ranked)} of {clusters} clusters report it"]
        if messages:
            merged["message"] = "; ".join(messages)[:_MAX_MESSAGE]
        yield merged


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
