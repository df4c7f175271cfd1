"""Interprets the health of an object by the standard conditions.

Sources: Kubernetes' API conventions (typical status properties); kstatus (sigs.k8s.io/cli-utils v0.37
pkg/kstatus/status), whose status Current is healthy here. ``tests/conformance/kstatus.yaml`` lists the differences.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.interpret.conventions.dependencies import find_values
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects

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
    """

    must_be_true: tuple[str, ...] = ()
    must_not_be_false: tuple[str, ...] = ()
    must_not_be_true: tuple[str, ...] = ()
    values: Mapping[str, tuple[str | bool | int, ...]] = {}
    paused: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether the rule names the signs of health, so that Ready, Available and the like do not decide."""
        return bool(self.must_be_true or self.must_not_be_false or self.values)


STANDARD: Final = HealthRule()
"""The rule for kinds about which nothing else is known."""


class Verdict(NamedTuple):
    """The health of an object, with the rule that decided."""

    healthy: bool
    reason: str


class _Condition(NamedTuple):
    """A condition of a status."""

    kind: str
    status: str
    reason: str
    generation: int | None
    """The generation of the object that it is about, None if it does not say so."""


def judge_health(document: JSONObject, rule: HealthRule = STANDARD) -> Verdict:
    """Return whether an object is healthy, and why; it never fails.

    An object that is paused or suspended on purpose is healthy unless its status reports a failure
    (``docs/interpreters.md``).
    """
    metadata, status = as_object(document.get("metadata")), as_object(document.get("status"))
    if metadata.get("deletionTimestamp"):
        return Verdict(False, "the object is being deleted")
    generation, observed = metadata.get("generation"), status.get("observedGeneration")
    conditions = _read_conditions(status)
    for kind in (*FAILURES, *rule.must_not_be_true):
        if (found := conditions.get(kind)) is not None and found.status == "True":
            return Verdict(False, _describe(found))
    if pause := _find_pause(document, rule, conditions):
        failure = _find_failure(document, rule, conditions)
        return Verdict(not failure, failure or pause)
    if isinstance(observed, int) and isinstance(generation, int) and observed != generation:
        return Verdict(False, f"observedGeneration is {observed}, generation is {generation}")
    return _judge_signs(document, rule, conditions, generation if isinstance(generation, int) else None)


def _find_failure(document: JSONObject, rule: HealthRule, conditions: Mapping[str, _Condition]) -> str:
    """Return the failure of an object that is paused, ``""`` if there is none."""
    for kind in (*(rule.must_be_true if rule.decides else ("Ready",)), *rule.must_not_be_false):
        found = conditions.get(kind)
        if found is not None and found.status == "False" and not _HOLDING.search(found.reason):
            return _describe(found)
    for pointer in rule.values:
        for value in find_values(document, pointer):
            if isinstance(value, str) and _FAILING.search(value):
                return f"{pointer} is {_show(value)}"
    return ""


def _judge_signs(
    document: JSONObject, rule: HealthRule, conditions: Mapping[str, _Condition], generation: int | None
) -> Verdict:
    """Return the verdict of the conditions and members; those about an older generation do not count."""
    if not rule.decides:
        return _judge_standard_conditions(conditions, generation)
    for kind in rule.must_be_true:
        found = conditions.get(kind)
        if found is None:
            return Verdict(False, f"{kind} is missing")
        if not (verdict := _judge_condition(found, generation)).healthy:
            return verdict
    for kind in rule.must_not_be_false:
        if (found := conditions.get(kind)) is not None and found.status == "False":
            return Verdict(False, _describe(found))
    for pointer, healthy in rule.values.items():
        found_values = list(find_values(document, pointer)) or [""]
        for value in found_values:
            if not any(value == one and type(value) is type(one) for one in healthy):
                return Verdict(False, f"{pointer} is {_show(value)}")
    signs = [f"{kind} is True" for kind in rule.must_be_true]
    signs += [f"{kind} is not False" for kind in rule.must_not_be_false]
    return Verdict(True, ", ".join([*signs, *(f"{pointer} is healthy" for pointer in rule.values)]))


def _judge_standard_conditions(conditions: Mapping[str, _Condition], generation: int | None) -> Verdict:
    reconciling = conditions.get("Reconciling")
    if reconciling is not None and reconciling.status == "True":
        return Verdict(False, _describe(reconciling))
    for kind in ("Ready", "Available"):
        if (found := conditions.get(kind)) is not None:
            return _judge_condition(found, generation)
    progressing = conditions.get("Progressing")
    if progressing is not None:
        # As in the status of a Deployment, whose rollout is over with this reason, and has failed if False.
        done = progressing.status == "True" and progressing.reason == "NewReplicaSetAvailable"
        failed = progressing.status == "False" and progressing.reason == "ProgressDeadlineExceeded"
        if failed or (progressing.status == "True" and not done):
            return Verdict(False, _describe(progressing))
    return Verdict(True, "no condition says otherwise")


def _judge_condition(condition: _Condition, generation: int | None) -> Verdict:
    if condition.status != "True":
        return Verdict(False, _describe(condition))
    if generation is not None and condition.generation is not None and condition.generation < generation:
        return Verdict(False, f"{condition.kind} is about generation {condition.generation}, not {generation}")
    return Verdict(True, _describe(condition))


def _describe(condition: _Condition) -> str:
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"{condition.kind} is {condition.status or 'empty'}{reason}"


def _show(value: JSON) -> str:
    return "missing" if value == "" else f"{value!r}" if isinstance(value, str) else f"{value}"[:80]


def _find_pause(document: JSONObject, rule: HealthRule, conditions: Mapping[str, _Condition]) -> str:
    """Return the member or the condition that says that the object is paused, ``""`` if there is none.

    A condition does not count if a member says that the object is not paused any more.
    """
    resumed = False
    for pointer in (*_PAUSED, *rule.paused):
        for value in find_values(document, pointer):
            if value not in _NOT_PAUSED:
                return f"{pointer} is set"
            resumed = True
    for kind in () if resumed else ("Paused", "Suspended"):
        if (found := conditions.get(kind)) is not None and found.status == "True":
            return _describe(found)
    return ""


def _read_conditions(status: Mapping[str, JSON]) -> dict[str, _Condition]:
    """Return the conditions by type; the first one of a type counts, as in kstatus."""
    found: dict[str, _Condition] = {}
    for one in _list_conditions(status):
        found.setdefault(one.kind, one)
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
