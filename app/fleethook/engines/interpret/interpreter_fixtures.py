"""Fixtures: questions with expected answers, in Karmada's format for the tests of its third-party customizations.

A document has ``name``, ``operation``, ``desiredObj`` and/or ``observedObj``, ``statusItems``, ``inputReplicas`` and
``output``. The answer must equal the members of ``output``; ``{{EXCLUDE}}`` matches any value.

In fleethook's format, fixtures share objects (`fleethook.fixture_format`). A test may name a shared object in
place of a status, too.

Source: karmada v1.16 pkg/resourceinterpreter/default/thirdparty/thirdparty_test.go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.interpret.lua.customization_rules_and_configmap import describe_object, has_scripts, read_object
from fleethook.fixture_format import (
    Difference,
    FixtureError,
    check_members,
    compare_member,
    find_value,
    read_tests,
    resolve_object,
)
from fleethook.interpret.interpreter import Answer, Question
from fleethook.model.formats.quantity import Quantity
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_list, list_objects
from fleethook.model.karmada import OPERATIONS, AggregatedStatusItem, Operation

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
_MEMBERS: Final = (
    "name", "description", "operation", "desiredObj", "observedObj", "statusItems", "inputReplicas", "output",
    "filepath",
)  # fmt: skip
"""The members of a fixture; ``filepath`` is Karmada's for its logs."""
_STATUS_ITEM: Final = tuple(AggregatedStatusItem.__annotations__)
_STATUSES: Final = frozenset({"status", "aggregatedStatus"})
_OBJECTS: Final = frozenset({"retained", "revised", "status", "aggregatedStatus", "packed"})
_BY_LOWER: Final = {
    # The operation's name in Karmada's description of the format.
    "retention": Operation.RETAIN,
    **{name.lower(): row.operation for row in OPERATIONS for name in (row.proposed, row.operation.value)},
}


class Fixture(NamedTuple):
    """A question with its expected answer."""

    name: str
    question: Question
    output: JSONObject
    test: int = 0
    """The index of its test in ``tests``."""


def find_operation(name: str) -> Operation:
    """Return the operation with a name, shipped or proposed, ignoring case; raises FixtureError."""
    found = _BY_LOWER.get(name.lower())
    if found is None:
        known = ", ".join(operation.value for operation in Operation)
        raise FixtureError(f"operation {name!r} is unknown: use one of {known}")
    return found


def read_fixtures(document: JSON, errors: list[FixtureError] | None = None) -> Iterator[Fixture]:
    """Yield the fixtures of a document of either format; raises FixtureError.

    Args:
        document: The document.
        errors: Gets the errors of malformed tests, None to raise the first one.
    """
    if not isinstance(document, dict) or "tests" not in document:
        yield read_fixture(document)
        return

    def read(test: JSON, objects: JSONObject) -> Fixture:
        return read_fixture(_resolve_objects(test, objects))

    for index, found in read_tests(document, read, errors):
        yield found._replace(test=index)


def _resolve_objects(test: JSON, objects: JSONObject) -> JSON:
    if not isinstance(test, dict):
        return test
    found = dict(test)
    for member in ("desiredObj", "observedObj"):
        if member in found:
            found[member] = resolve_object(found[member], objects)
    items = found.get("statusItems")
    if isinstance(items, list):
        found["statusItems"] = [
            {**item, "status": resolve_object(item["status"], objects)}
            if isinstance(item, dict) and "status" in item
            else item
            for item in items
        ]
    output = found.get("output")
    if isinstance(output, dict):
        found["output"] = {
            name: resolve_object(value, objects) if name in _OBJECTS else value for name, value in output.items()
        }
    return found


def read_fixture(document: JSON) -> Fixture:
    """Return the fixture of a document of Karmada's format; raises FixtureError."""
    if not isinstance(document, dict):
        raise FixtureError("is not an object")
    name, operation_name = document.get("name") or "(no name)", document.get("operation")
    try:
        _check_fixture(document)
    except FixtureError as error:
        raise FixtureError(f"{name}: {error}") from None
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
    question = make_question(
        operation,
        desired=document.get("desiredObj"),
        observed=document.get("observedObj"),
        items=document.get("statusItems"),
        replicas=document.get("inputReplicas") or 0,
    )
    return Fixture(str(name), question, output)


def _check_fixture(document: JSONObject) -> None:
    """Raise FixtureError for an unknown member. Karmada's own fixtures have some in their status items."""
    check_members(document, _MEMBERS)
    for item in list_objects(document.get("statusItems")):
        check_members(item, _STATUS_ITEM, any_other=True)


def make_question(operation: Operation, *, desired: JSON, observed: JSON, items: JSON, replicas: JSON) -> Question:
    """Return the question for the values of a fixture or of a command line; raises FixtureError."""
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


def warn_untested(documents: Iterable[Document], kinds: set[GroupVersionKind]) -> Iterator[str]:
    """Yield a warning for each object whose scripts answer for none of the ``kinds`` that fixtures ask about."""
    for document in (one for one in documents if has_scripts(one.object)):
        own = {rule.kind for rule in read_object(document.object).rules}
        if own and own.isdisjoint(kinds):
            names = ", ".join(sorted(f"{kind.api_version} {kind.kind}" for kind in own))
            text = f"no fixture asks about {names}, for which {describe_object(document.object)} has scripts"
            yield f"{document.source}:{document.line}: warning: {text}"


def name_results(question: Question, answer: Answer) -> JSONObject:
    """Return the members of an answer by their names in fixtures and in karmadactl."""
    names = _RESULTS[question.operation]
    if question.operation is Operation.REPLICA:
        return {"replica": answer.replicas, "requires": answer.requirements}
    value: Mapping[Operation, Any] = {
        Operation.COMPONENT: answer.components, Operation.STATUS: answer.status, Operation.HEALTH: answer.healthy,
        Operation.DEPENDENCY: answer.dependencies,
    }  # fmt: skip
    return {names[0]: value.get(question.operation, answer.object)}


def compare_answer(case: Fixture, answer: Answer) -> Iterator[Difference]:
    """Yield the differences between an answer and the expected answer."""
    found = name_results(case.question, answer)
    for name, expected in case.output.items():
        if name == "aggregatedStatus" and isinstance(expected, dict) and "kind" in expected:
            yield from _compare_member(name, _add_unnamed_members(expected, case.question.object), found[name])
        else:
            yield from _compare_member(name, expected, found[name])


def _add_unnamed_members(expected: JSONObject, template: JSONObject) -> JSONObject:
    """Return an expected object with the template's members that the fixture does not name.

    Karmada writes only the status. Some of its scripts drop spec, and return an empty status for a missing one.
    """
    kept = {member: value for member, value in template.items() if member != "status"}
    return kept | {member: value for member, value in expected.items() if member != "status" or value != {}}


def _compare_member(name: str, expected: JSON, found: JSON) -> Iterator[Difference]:
    if name == "aggregatedStatus" and isinstance(expected, dict) and "kind" not in expected:
        found = (found or {}).get("status")
    if (normalize := _NORMALIZERS.get(name)) is not None:
        # Karmada compares Go types, which omit empty members.
        expected, found = normalize(_drop_empty(expected) or None), normalize(_drop_empty(found) or None)
    yield from compare_member(
        name, expected, found, lambda step: name in _STATUSES and _adds_empty_member(expected, step)
    )


def _drop_empty(value: JSON) -> JSON:
    """Return a value without members that are null or empty."""
    if isinstance(value, dict):
        members = {name: _drop_empty(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, "", {}, [])}
    return [_drop_empty(element) for element in value] if isinstance(value, list) else value


def _adds_empty_member(expected: JSON, step: JSONObject) -> bool:
    """Return whether a step only adds an empty member.

    Karmada's Lua drops empty members, so its fixtures cannot contain those of a status.
    """
    parent = find_value({"": expected}, step["path"].rpartition("/")[0])
    return step["op"] == "add" and step["value"] in ({}, []) and isinstance(parent, dict)


def _sort_elements(value: JSON, *members: str) -> list[JSON]:
    return sorted(as_list(value), key=lambda one: [str(one.get(member) or "") for member in members])


def _normalize_quantities(requirements: JSON) -> JSON:
    """Return requirements with their quantities in canonical form."""
    if not isinstance(requirements, dict):
        return requirements
    written = dict(requirements)
    if isinstance(requests := written.get("resourceRequest"), dict):
        written["resourceRequest"] = {name: _normalize_quantity(text) for name, text in requests.items()}
    if "replicaRequirements" in written:
        written["replicaRequirements"] = _normalize_quantities(written["replicaRequirements"])
    return written


def _normalize_quantity(amount: JSON) -> JSON:
    try:
        return str(Quantity(Quantity.parse(amount).value))
    except (ValueError, TypeError):
        return amount


_NORMALIZERS: Final[Mapping[str, Callable[[JSON], JSON]]] = {
    "requires": _normalize_quantities,
    "components": lambda value: [_normalize_quantities(one) for one in _sort_elements(value, "name")],
    "dependencies": lambda value: _sort_elements(value, "apiVersion", "kind", "namespace", "name"),
}
