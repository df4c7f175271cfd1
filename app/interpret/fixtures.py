"""Fixtures: what an interpreter is asked and what it is to answer, in Karmada's own format (research 6.1).

A document has ``name``, ``operation``, ``desiredObj`` and/or ``observedObj``, ``statusItems``, ``inputReplicas`` and
``output``. What ``output`` names has to be answered so; ``{{EXCLUDE}}`` stands for any value.

In ours many cases share their objects: a document has ``objects``, by name, and ``tests``, each as above. Where an
object or a status is expected there may be the name of one, or ``{from: NAME, with: MERGE PATCH}`` (RFC 7386).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from app.interpret.question import Answer, Question
from app.model.gvk import GroupVersionKind, parse_api_version
from app.model.json import JSON, JSONObject
from app.model.karmada import OPERATIONS, Operation
from app.model.quantity import Quantity
from app.patch import diff, merge_patch, resolve_pointer

EXCLUDE: Final = "{{EXCLUDE}}"

_RESULTS: Final = {
    Operation.RETAIN: ("retained",),
    Operation.REPLICA: ("replica", "requires"),
    Operation.COMPONENT: ("components",),
    Operation.REVISE_REPLICA: ("revised",),
    Operation.STATUS: ("status",),
    Operation.AGGREGATE_STATUS: ("aggregatedStatus",),
    Operation.HEALTH: ("healthy",),
    Operation.DEPENDENCY: ("dependencies",),
    Operation.PRUNE: ("packed",),
}
_STATUSES: Final = frozenset({"status", "aggregatedStatus"})
_OBJECTS: Final = frozenset({"retained", "revised", "status", "aggregatedStatus", "packed"})
_BY_LOWER: Final = {
    # Karmada's own description of the format calls it so.
    "retention": Operation.RETAIN,
    **{name.lower(): row.operation for row in OPERATIONS for name in (row.proposed, row.operation.value)},
}


class FixtureError(ValueError):
    """A fixture that cannot be run; the text says what is wrong with it."""


class Fixture(NamedTuple):
    """One case."""

    name: str
    question: Question
    output: JSONObject


class Difference(NamedTuple):
    """One thing that is answered otherwise."""

    path: str
    expected: JSON
    found: JSON


def find_operation(name: str) -> Operation:
    """Return the operation of a name, shipped or proposed, in any case; raises FixtureError."""
    found = _BY_LOWER.get(name.lower())
    if found is None:
        known = ", ".join(one.value for one in Operation)
        raise FixtureError(f"operation {name!r} is unknown: use one of {known}")
    return found


def is_fixture(document: JSON) -> bool:
    """Return whether a document is one of either format, and not an object or something else."""
    return isinstance(document, dict) and ("tests" in document or "operation" in document or "output" in document)


def read_fixtures(document: JSON) -> Iterator[Fixture]:
    """Yield the cases of a document of either format; raises FixtureError."""
    if not isinstance(document, dict) or "tests" not in document:
        yield read_fixture(document)
        return
    tests, objects = document["tests"], document.get("objects") or {}
    if not isinstance(tests, list) or not isinstance(objects, dict):
        raise FixtureError("tests must be a list, and objects must be an object")
    known: JSONObject = {}
    for name, value in objects.items():
        known[name] = _named(value, known)
    for test in tests:
        yield read_fixture(_with_objects(test, known))


def _with_objects(test: JSON, objects: JSONObject) -> JSON:
    if not isinstance(test, dict):
        return test
    found = dict(test)
    for member in ("desiredObj", "observedObj"):
        if member in found:
            found[member] = _named(found[member], objects)
    items = found.get("statusItems")
    if isinstance(items, list):
        found["statusItems"] = [
            {**item, "status": _named(item["status"], objects)} if isinstance(item, dict) and "status" in item else item
            for item in items
        ]
    output = found.get("output")
    if isinstance(output, dict):
        found["output"] = {
            name: _named(value, objects) if name in _OBJECTS else value for name, value in output.items()
        }
    return found


def _named(value: JSON, objects: JSONObject) -> JSON:
    """Return the object that a name, or a name and a patch, stands for; raises FixtureError."""
    if isinstance(value, str):
        if value not in objects:
            raise FixtureError(f"unknown object {value!r}: objects has {', '.join(objects) or 'none'}")
        return objects[value]
    if isinstance(value, dict) and "from" in value and value.keys() <= {"from", "with"}:
        return merge_patch(_named(value["from"], objects), value.get("with") or {})
    return value


def read_fixture(document: JSON) -> Fixture:
    """Return the case that a document is; raises FixtureError."""
    if not isinstance(document, dict):
        raise FixtureError("is not an object")
    name, operation_name = document.get("name") or "(no name)", document.get("operation")
    if not isinstance(operation_name, str):
        raise FixtureError(f"{name}: operation is missing")
    if "output" not in document:
        raise FixtureError(
            f"{name}: output is missing: give the expected answer, or an empty object to accept any answer"
        )
    output = document["output"] or {}
    if not isinstance(output, dict):
        raise FixtureError(f"{name}: output is not an object")
    operation = find_operation(operation_name)
    unknown = sorted(output.keys() - set(_RESULTS[operation]))
    if unknown:
        raise FixtureError(
            f"{name}: output of {operation} has no {', '.join(unknown)}: use {', '.join(_RESULTS[operation])}"
        )
    asked = make_question(
        operation,
        desired=document.get("desiredObj"),
        observed=document.get("observedObj"),
        items=document.get("statusItems"),
        replicas=document.get("inputReplicas") or 0,
    )
    return Fixture(str(name), asked, output)


def make_question(operation: Operation, *, desired: JSON, observed: JSON, items: JSON, replicas: JSON) -> Question:
    """Return a question from what a fixture or a command line gives; raises FixtureError."""
    if operation is Operation.RETAIN and not (isinstance(desired, dict) and isinstance(observed, dict)):
        raise FixtureError("Retain needs the desired and the observed object")
    document = desired if isinstance(desired, dict) else observed
    if not isinstance(document, dict):
        raise FixtureError(f"{operation} needs a desired or an observed object")
    if operation is Operation.REVISE_REPLICA and not isinstance(replicas, int):
        raise FixtureError("ReviseReplica needs the desired number of replicas")
    if items is not None and not (isinstance(items, list) and all(isinstance(item, dict) for item in items)):
        raise FixtureError("the status items are not a list of objects")
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise FixtureError("the object has no apiVersion and kind")
    gvk = GroupVersionKind(*parse_api_version(api_version), kind)
    kept = observed if operation is Operation.RETAIN else None
    return Question(operation, gvk, document, kept, replicas if isinstance(replicas, int) else 0, items)


def name_results(asked: Question, answer: Answer) -> JSONObject:
    """Return an answer under the names that fixtures and karmadactl have for it."""
    names = _RESULTS[asked.operation]
    if asked.operation is Operation.REPLICA:
        return {"replica": answer.replicas, "requires": answer.requirements}
    value: Mapping[Operation, Any] = {
        Operation.COMPONENT: answer.components, Operation.STATUS: answer.status, Operation.HEALTH: answer.healthy,
        Operation.DEPENDENCY: answer.dependencies,
    }  # fmt: skip
    return {names[0]: value.get(asked.operation, answer.object)}


def compare_answer(case: Fixture, answer: Answer) -> Iterator[Difference]:
    """Yield where an answer is not what the fixture says."""
    found = name_results(case.question, answer)
    for name, expected in case.output.items():
        if name == "aggregatedStatus" and isinstance(expected, dict) and "kind" in expected:
            yield from _compare(name, _with_rest(expected, case.question.object), found[name])
        else:
            yield from _compare(name, expected, found[name])


def _with_rest(expected: JSONObject, template: JSONObject) -> JSONObject:
    """Return an aggregated object with the template's members that the fixture does not name.

    Karmada writes the status only: some of its scripts drop spec, and make an empty status that is none.
    """
    kept = {member: value for member, value in template.items() if member != "status"}
    return kept | {member: value for member, value in expected.items() if member != "status" or value != {}}


def _compare(name: str, expected: JSON, found: JSON) -> Iterator[Difference]:
    if name == "aggregatedStatus" and isinstance(expected, dict) and "kind" not in expected:
        found = (found or {}).get("status")
    if name in ("requires", "components", "dependencies"):
        # Karmada compares them as its types, for which what is empty is not there.
        expected, found = _filled(expected) or None, _filled(found) or None
    if name == "requires":
        expected, found = _amounts(expected), _amounts(found)
    elif name == "components":
        expected, found = ([_amounts(one) for one in _sorted(value, "name")] for value in (expected, found))
    elif name == "dependencies":
        expected, found = (_sorted(value, "apiVersion", "kind", "namespace", "name") for value in (expected, found))
    for step in diff({"": expected}, {"": found}):
        path = step["path"].removeprefix("/")
        before = _at({"": expected}, step["path"]) if step["op"] != "add" else None
        if _excluded({"": expected}, step["path"]) or (name in _STATUSES and _only_empty(expected, step)):
            continue
        yield Difference(f"{name}{path}", before, step.get("value"))


def _filled(value: JSON) -> JSON:
    """Return a value without members that are null or empty."""
    if isinstance(value, dict):
        members = {name: _filled(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, "", {}, [])}
    return [_filled(element) for element in value] if isinstance(value, list) else value


def _only_empty(expected: JSON, step: JSONObject) -> bool:
    """Return whether there is but an empty member more.

    Karmada's Lua loses them on the way, so its fixtures cannot name those that a status had.
    """
    parent = _at({"": expected}, step["path"].rpartition("/")[0])
    return step["op"] == "add" and step["value"] in ({}, []) and isinstance(parent, dict)


def _sorted(value: JSON, *members: str) -> list[JSON]:
    elements = value if isinstance(value, list) else []
    return sorted(elements, key=lambda one: [str(one.get(member) or "") for member in members])


def _amounts(requirements: JSON) -> JSON:
    """Return requirements whose quantities are written in their canonical form."""
    if not isinstance(requirements, dict):
        return requirements
    written = dict(requirements)
    if isinstance(asked := written.get("resourceRequest"), dict):
        written["resourceRequest"] = {name: _canonical(text) for name, text in asked.items()}
    if "replicaRequirements" in written:
        written["replicaRequirements"] = _amounts(written["replicaRequirements"])
    return written


def _canonical(amount: JSON) -> JSON:
    try:
        return str(Quantity(Quantity.parse(amount).value))
    except (ValueError, TypeError):
        return amount


def _at(document: JSONObject, pointer: str) -> JSON:
    try:
        return resolve_pointer(document, pointer)
    except LookupError:
        return None


def _excluded(document: JSONObject, pointer: str) -> bool:
    """Return whether a place, or one that it is in, may be anything."""
    while pointer:
        if _at(document, pointer) == EXCLUDE:
            return True
        pointer = pointer.rpartition("/")[0]
    return False
