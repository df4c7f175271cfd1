"""Fixtures of rules: requests with the expected answers of one rule, or of all rules of a server.

A test has ``name``, ``operation``, ``object``, ``oldObject``, ``rule``, further parts of the request, and ``output``.
The answer must equal the members of ``output``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from fleethook.admission.rule_in_tests import Review, Rule, Surroundings, ask_in_order, build_request, find_surroundings
from fleethook.fixture_format import (
    DOCUMENT,
    Difference,
    FixtureError,
    check_members,
    compare_member,
    read_tests,
    resolve_object,
)
from fleethook.model.admission import AdmissionRequest, Operation
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import diff
from fleethook.workload_schema.admission_objects import show_request
from fleethook.workload_schema.defaults import knows_defaults

_ARGUMENTS: Final[Mapping[str, tuple[str, type, str]]] = {
    "subresource": ("subresource", str, "a text"),
    "resource": ("resource", str, "a text"),
    "user": ("user", dict, "an object"),
    "dryRun": ("dry_run", bool, "true or false"),
    "request": ("name", dict, "an object"),
    "namespaceLabels": ("namespace_labels", dict, "an object"),
    "settings": ("settings", dict, "an object"),
}
"""Members of a test that are arguments of `Rule.review`, with their types."""
_USER: Final = ("username", "uid", "groups", "extra")
_MEMBERS: Final = ("name", "operation", "object", "oldObject", "store", "rule", *_ARGUMENTS, "output")
_OUTPUT: Final = ("allowed", "matched", "message", "code", "warnings", "patch", "object")


class RuleFixture(NamedTuple):
    """A request with its expected answer.

    Attributes:
        name: The name of the test.
        rule: The rule to ask; ``""`` for all, in the order of kube-apiserver.
        operation: The operation.
        document: The object.
        arguments: Further arguments of `Rule.review`.
        store: The other objects.
        output: The expected members of the answer.
    """

    name: str
    rule: str
    operation: Operation
    document: JSONObject
    arguments: Mapping[str, Any]
    store: Sequence[JSONObject]
    output: JSONObject


def read_rule_fixtures(document: JSON, errors: list[FixtureError] | None = None) -> Iterator[tuple[int, RuleFixture]]:
    """Yield the fixtures of a document with their indexes; raises FixtureError.

    Args:
        document: The document.
        errors: Gets the errors of malformed tests, None to raise the first one.
    """
    if not isinstance(document, dict) or not document.get("tests"):
        raise FixtureError("tests is missing or empty: give a list of tests")
    for name in document:
        if name in _MEMBERS:
            raise FixtureError(f"{name!r} is unknown beside tests: use {', '.join(DOCUMENT)}, or give it in each test")
    return read_tests(document, _read_fixture, errors)


def _read_fixture(test: JSON, objects: JSONObject) -> RuleFixture:
    if not isinstance(test, dict):
        raise FixtureError(f"the test {test!r} is no object: give name, object and output")
    name = str(test.get("name") or "(no name)")
    try:
        return _read_members(name, test, objects)
    except FixtureError as error:
        raise FixtureError(f"{name}: {error}") from None


def _read_members(name: str, test: JSONObject, objects: JSONObject) -> RuleFixture:
    check_members(test, _MEMBERS)
    operation = test.get("operation", "CREATE")
    if operation not in get_args(Operation):
        raise FixtureError(f"operation {operation!r} is unknown: use one of {', '.join(get_args(Operation))}")
    arguments: dict[str, Any] = {}
    for member, (argument, type_, noun) in _ARGUMENTS.items():
        if member in test:
            if not isinstance(test[member], type_):
                raise FixtureError(f"{member} is not {noun}")
            arguments[argument] = _read_name(test[member]) if member == "request" else test[member]
    if "oldObject" in test:
        arguments["old"] = _read_object(test, "oldObject", objects)
    check_members(test.get("user", {}), _USER)
    store = test.get("store", [])
    if not isinstance(store, list):
        raise FixtureError("store is not a list of objects")
    others = [_read_object({"store": one}, "store", objects) for one in store]
    # A review of a DELETE has only the old object.
    member = "oldObject" if operation == "DELETE" and "object" not in test else "object"
    document = _read_object(test, member, objects)
    output = _read_output(test, objects)
    return RuleFixture(name, str(test.get("rule") or ""), operation, document, arguments, others, output)


def _read_name(request: JSONObject) -> str:
    """Return the name of a request, which that of a deleted collection lacks."""
    check_members(request, ("name",))
    if "name" not in request:
        raise FixtureError("request has no name: give {name: ''} for a deleted collection")
    return str(request["name"])


def _read_object(test: JSONObject, member: str, objects: JSONObject) -> JSONObject:
    if member not in test:
        raise FixtureError(f"{member} is missing: give an object, or the name of one")
    found = resolve_object(test[member], objects)
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("apiVersion", "kind")):
        raise FixtureError(f"{member} is no object with apiVersion and kind")
    return found


def _read_output(test: JSONObject, objects: JSONObject) -> JSONObject:
    output = test.get("output")
    if not isinstance(output, dict) or not output:
        raise FixtureError("output is missing: give the expected answer, for example {allowed: true}")
    if unknown := sorted(output.keys() - set(_OUTPUT)):
        raise FixtureError(f"output has no {unknown[0]}: use {', '.join(_OUTPUT)}")
    return output | ({"object": resolve_object(output["object"], objects)} if "object" in output else {})


class RuleFixtureResult(NamedTuple):
    """The result of a fixture.

    Attributes:
        rule: The rule that answered; ``""`` for several.
        error: The mistake of a rule, or why it failed, unless the fixture expects its message or warning; otherwise
            ``""``.
        unasked: Why no rule is asked about the request, unless the fixture expects that; otherwise ``""``.
        differences: The members of the answer that differ.
    """

    rule: str
    error: str
    unasked: str
    differences: list[Difference]


def run_rule_fixture(
    rules: Sequence[Rule], fixture: RuleFixture, definitions: Sequence[JSONObject] = ()
) -> RuleFixtureResult:
    """Ask the rules; raises FixtureError if they lack the rule of the fixture.

    Args:
        rules: The rules of the file.
        fixture: The request and the expected answer.
        definitions: CustomResourceDefinitions, for the defaults that kube-apiserver sets before it asks, and for the
            schemas of results.
    """
    asked = [one for one in rules if fixture.rule in ("", one.name)]
    if not asked:
        raise FixtureError(f"there is no rule {fixture.rule!r}: the file has {', '.join(one.name for one in rules)}")
    store = [*fixture.store, *definitions]
    given = dict(fixture.arguments)
    around = find_surroundings(
        fixture.document,
        store,
        namespace_labels=given.pop("namespace_labels", None),
        settings=given.pop("settings", {}),
    )
    request = build_request(fixture.document, rules=asked, operation=fixture.operation, **given)
    shown = show_request(request, around.version, validating=False)
    name, answer = _ask(asked, request, around, shown.object)
    if answer.mistakes:
        return RuleFixtureResult(name, "; ".join(answer.mistakes), "", [])
    if not fixture.output.keys() & {"message", "warnings"}:
        # The failure policy decides, so the expected verdict would hide a mistake in the rule.
        for text in (answer.message, *answer.warnings):
            if any(text.startswith(rule.failure) for rule in asked):
                return RuleFixtureResult(name, text + _explain_missing(text, fixture.document, around), "", [])
    found: JSONObject = {
        "allowed": answer.allowed, "matched": answer.matched, "message": answer.message, "code": answer.code,
        "warnings": list(answer.warnings), "patch": list(answer.patch), "object": answer.object,
    }  # fmt: skip
    expected = fixture.output
    if isinstance(expected.get("object"), dict):
        other = request.with_objects(expected["object"], request.old_object)
        expected = expected | {"object": show_request(other, around.version, validating=False).object}
    differences = [one for member, value in expected.items() for one in compare_member(member, value, found[member])]
    return RuleFixtureResult(
        name or fixture.rule, "", "" if answer.matched or "matched" in expected else answer.reason, differences
    )


_MISSING: Final = ("no such key", "has no member", "KeyError")
"""Parts of the errors of rules in CEL and in Python that read a missing member."""


def _explain_missing(failure: str, document: JSONObject, around: Surroundings) -> str:
    """Return the end of the message about a missing member that may have a default."""
    is_known = knows_defaults(document) or around.version is not None
    if is_known or not any(one in failure for one in _MISSING):
        return ""
    return f"; if it has a default, give the CustomResourceDefinition of {document['kind']} beside the tests"


def _ask(rules: Sequence[Rule], request: AdmissionRequest, around: Surroundings, shown: JSON) -> tuple[str, Review]:
    """Return the answer to a request, and the rule that gave it: the first refusal is the answer."""
    document, warnings, matched, mistakes = shown, list[str](), list[str](), list[str]()
    answer = None
    for rule, _, answer in ask_in_order(rules, request, around):
        mistakes += answer.mistakes
        if answer.matched:
            matched.append(rule.name)
            warnings += answer.warnings
        if not answer.allowed:
            return rule.name, answer._replace(warnings=tuple(warnings), mistakes=tuple(mistakes))
        if rule.declaration.mutates:
            document = answer.object
    assert answer is not None, "there is at least one rule"
    patch = diff(shown, document)
    whole = answer._replace(
        matched=bool(matched), warnings=tuple(warnings), patch=patch, object=document, mistakes=tuple(mistakes)
    )
    return matched[0] if len(matched) == 1 else "", whole
