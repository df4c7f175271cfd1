"""Checks an overrider by the schema of its CustomResourceDefinition, as kube-apiserver does.

kube-apiserver drops unknown fields. Here they are errors, because a dropped field is a mistake without a message.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.api_schema import describe_mistake, load_served
from fleethook.cluster.registration.configuration_objects import list_definitions
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.workload_schema.check import find_errors

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_SUGGESTED: Final = re.compile(r"did you mean (\w+)\?")
# The examples of the proposal have `nameSpace`.
_NAMESPACE: Final = "is not a field: a subject is always in the namespace of its overrider; remove it"
_ITEM: Final = re.compile(r"entries\[\d+\]\.items\[\d+\]\.\w+")
_LIMITS: Final = {"minimum": "at least", "maximum": "at most"}
# Rules that explain more decide about these: an empty selector, and a path that is no JSON pointer.
_OTHER_RULES: Final = frozenset({"minProperties", "pattern"})


class _Schema(NamedTuple):
    schema: JSONObject
    validator: Draft4Validator


@cache
def _load_schema() -> _Schema:
    (definition,) = (
        one for one in list_definitions()["overrider"] if one["spec"]["names"]["kind"] == YURT_APP_OVERRIDER.kind
    )
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    names = load_served().definitions["meta.v1.ObjectMeta"]["properties"]
    metadata = {"type": "object", "properties": {name: {} for name in names}}
    # The controller writes the status, and other versions of it may write other members.
    closed = _close({**schema, "properties": {**schema["properties"], "metadata": metadata, "status": {}}})
    return _Schema(closed, Draft4Validator(closed, offline=True))


def _close(node: JSON) -> JSON:
    """Return a schema that refuses unknown members of objects with known ones."""
    if isinstance(node, list):
        return [_close(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    closed = {name: _close(inner) for name, inner in node.items()}
    if isinstance(node.get("properties"), dict) and "type" in node and not node.get(_PRESERVE):
        closed["additionalProperties"] = False
    return closed


def check_schema(overrider: JSONObject) -> tuple[list[Finding], bool]:
    """Return the violations of the schema, and whether these are all. Of a large overrider, it is only the first."""
    try:
        errors, are_all = find_errors(_load_schema().validator, overrider)
    except ValueError as error:
        return [Finding("invalid", "", f"cannot be checked: {error}")], False
    found: dict[str, Finding] = {}
    for finding in (one for error in errors for one in _describe(error, overrider)):
        found.setdefault(finding.field, finding)
    meant = {
        f"{one.field.rpartition('.')[0]}.{name[1]}".removeprefix(".")
        for one in found.values()
        if one.code == "unknown-field" and (name := _SUGGESTED.search(one.message))
    }
    return [one for one in found.values() if one.code != "required" or one.field not in meant], are_all


def _describe(error: ValidationError, overrider: JSONObject) -> Iterator[Finding]:
    keyword, details, path = error.kind.name, error.kind.as_dict(), error.instance_path
    schema, field = _load_schema().schema, _format_field(path)
    if keyword in _OTHER_RULES:
        return
    if keyword == "additionalProperties":
        for name in details["unexpected"]:
            yield _advise(Finding(*describe_mistake(overrider, schema, path, name)[1:]))
    elif keyword == "required":
        yield Finding("required", _format_field([*path, details["property"]]), "is required")
    elif keyword == "minLength":
        yield Finding("required", field, "must not be empty")
    elif keyword in _LIMITS:
        yield Finding("invalid", field, f"must be {_LIMITS[keyword]} {details['limit']}, not {error.instance}")
    elif error.instance is not None or isinstance(path[-1], int):
        yield _advise(Finding(*describe_mistake(overrider, schema, path)[1:]), error.instance)
    elif path[-1] in _find_node(schema, error.schema_path[:-3]).get("required", ()):
        # Null counts as absent, as in the Kubernetes API.
        yield Finding("required", field, "is required")


def _advise(finding: Finding, value: JSON = None) -> Finding:
    """Return a finding with a remedy for a frequent mistake."""
    if finding.field.casefold() == "subject.namespace":
        return finding._replace(message=_NAMESPACE)
    if finding.code == "unknown-field" and _ITEM.fullmatch(finding.field) and "the fields are" in finding.message:
        return finding._replace(message=f"{finding.message}, and a patch changes any other field of a workload")
    if finding.field.endswith(".pools") and isinstance(value, str):
        meant = ", ".join(f"- {name}" for name in value.split())
        return finding._replace(message=f"{finding.message}; each pool takes a dash: {meant}")
    return finding


def _find_node(schema: JSON, path: list[str | int]) -> JSON:
    for step in path:
        schema = schema[step]
    return schema


def _format_field(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
