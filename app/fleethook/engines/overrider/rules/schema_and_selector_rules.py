"""Rules for a YurtAppOverrider alone, without its subject: its schema, and the rules that a schema cannot express.

kube-apiserver drops unknown fields. Here they are errors, because a dropped field is a mistake without a message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.api_schema import describe_mistake, load_served
from fleethook.cluster.registration.webhook_configurations import list_definitions
from fleethook.engines.overrider.entries.entry_selection import (
    EVERY_POOL,
    EXCLUDE,
    PoolSelector,
    sample_names,
    selected_names,
)
from fleethook.engines.overrider.entries.steps_and_limits import LIMITS
from fleethook.engines.overrider.rules.entry_rules import check_item, check_patch
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.formats.names_and_labels import validate_selector
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object, count_values, enumerate_objects
from fleethook.model.openyurt import GROUP, SUBJECT_VERSIONS, YURT_APP_OVERRIDER
from fleethook.workload_schema.workload_check import find_errors

SELECTOR: Final = ("matchLabels", "matchExpressions")
MAX_VALUES: Final = 10_000
"""Values (texts, numbers, lists, objects) of one patch or item. A large Pod template has 500."""
_ENDS: Final = re.compile(r"[.\[]|$")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_SUGGESTED: Final = re.compile(r"did you mean (\w+)\?")
# The examples of the proposal have `nameSpace`.
_NAMESPACE: Final = "is not a field: a subject is always in the namespace of its overrider; remove it"
_ITEM: Final = re.compile(r"entries\[\d+\]\.items\[\d+\]\.\w+")
_LIMITS: Final = {"minimum": "at least", "maximum": "at most"}
# Rules that explain more decide about these: an empty selector, and a path that is no JSON pointer.
_OTHER_RULES: Final = frozenset({"minProperties", "pattern"})


class _Mistakes(NamedTuple):
    """The violations of the schema. The other rules need values of the right types."""

    places: frozenset[str]
    """The fields with a violation, and the fields around them."""
    with_unknown: frozenset[str]
    """The fields that have unknown members."""


def check_overrider(overrider: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in an overrider that need no subject to be findings, with field paths."""
    findings, are_all = _check_schema(overrider)
    yield from findings
    if not are_all:
        return
    mistakes = _Mistakes(
        frozenset(finding.field[: end.start()] for finding in findings for end in _ENDS.finditer(finding.field)),
        frozenset(finding.field.rpartition(".")[0] for finding in findings if finding.code == "unknown-field"),
    )
    if "subject" not in mistakes.places and "subject" in overrider:
        yield from _check_version(overrider["subject"])
    for number, entry in enumerate_objects(overrider.get("entries")):
        yield from _check_entry(f"entries[{number}]", entry, mistakes)


def _check_version(subject: Mapping[str, JSON]) -> Iterator[Finding]:
    kind, version = subject["kind"], subject.get("apiVersion")
    known = [f"{GROUP}/{one}" for one in SUBJECT_VERSIONS[GroupKind(GROUP, kind)]]
    if version and version not in known:
        message = f"must be {' or '.join(known)}, not {version!r}; {kind} has no other version to override"
        yield Finding("unsupported", "subject.apiVersion", message)


def _check_entry(field: str, entry: Mapping[str, JSON], mistakes: _Mistakes) -> Iterator[Finding]:
    pools, selector, findings = entry.get("pools"), entry.get("poolSelector"), list[Finding]()
    if f"{field}.pools" not in mistakes.places:
        by_labels = selector is not None or field in mistakes.with_unknown
        findings += _check_pools(f"{field}.pools", pools, by_labels=by_labels)
    if selector is not None and f"{field}.poolSelector" not in mistakes.places:
        findings += _check_selector(f"{field}.poolSelector", selector, pools)
    yield from findings
    samples = sample_names(selected_names(pools))
    for member, check in (("items", check_item), ("patches", check_patch)):
        elements = as_list(entry.get(member))
        if len(elements) > LIMITS.operations:
            text = f"has {len(elements)} {member}, and the limit is {LIMITS.operations}: combine them"
            yield Finding("invalid", f"{field}.{member}", text)
            continue
        for number, element in enumerate(elements):
            place = f"{field}.{member}[{number}]"
            if count_values(element, limit=MAX_VALUES) > MAX_VALUES:
                text = f"has more than {MAX_VALUES} values, which is the limit for one of the {member}: split it"
                yield Finding("invalid", place, text)
            elif place not in mistakes.places:
                yield from check(element, place, pools=samples)
    if not findings and field not in mistakes.places and not entry.get("items") and not entry.get("patches"):
        yield Finding("no-effect", field, "changes nothing: it has neither items nor patches")


def _check_pools(field: str, pools: Sequence[str] | None, *, by_labels: bool) -> Iterator[Finding]:
    if pools is None:
        if not by_labels:
            text = "names no node pool; write '*' for all of them, or poolSelector for some labels"
            yield Finding("required", field, text)
    elif EXCLUDE in pools:
        yield Finding("invalid", f"{field}[{pools.index(EXCLUDE)}]", "must be a pool's name, -name or '*'")
    elif not by_labels and (problem := _selects_nothing(pools)) is not None:
        yield Finding("unused-entry", field, problem)


def _check_selector(field: str, selector: JSON, pools: JSON) -> Iterator[Finding]:
    """Yield the mistakes of a ``poolSelector``."""
    mistakes = [*check_selector(field, selector)]
    yield from mistakes
    if is_empty_selector(selector) and not mistakes:
        text = "is empty, and an empty selector would select every node pool: write pools: ['*'] for that"
        yield Finding("required", field, text)
    elif isinstance(pools, list) and EVERY_POOL in pools:
        yield Finding("no-effect", field, "changes nothing, because pools has '*': remove one of them")


def check_selector(field: str, selector: Mapping[str, JSON]) -> Iterator[Finding]:
    """Yield the mistakes in a label selector whose members have the right types."""
    if count_values(selector, limit=MAX_VALUES) > MAX_VALUES:
        yield Finding("invalid", field, f"has more than {MAX_VALUES} values, which is the limit: split it")
        return
    for pointer, problem in validate_selector(selector, ""):
        path = "".join(f"[{token}]" if token.isdecimal() else f".{token}" for token in pointer.split("/")[1:])
        yield Finding("invalid", f"{field}{path}", problem)


def is_empty_selector(selector: JSON) -> bool:
    """Return whether a label selector has no condition, so that it selects everything."""
    return isinstance(selector, dict) and not any(selector.get(name) for name in SELECTOR)


def _selects_nothing(names: Sequence[JSON]) -> str | None:
    if not names:
        return "is empty, so the entry applies to no node pool"
    if not selected_names(names) and EVERY_POOL not in names:
        return "only excludes node pools, so the entry applies to none; add '*' for all others"
    if EVERY_POOL in names or any(map(PoolSelector({"pools": names}).selects, selected_names(names))):
        return None
    return "excludes every node pool that it names, so the entry applies to none"


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


def _check_schema(overrider: JSONObject) -> tuple[list[Finding], bool]:
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


def check_immutable_fields(old: Mapping[str, JSON], overrider: Mapping[str, JSON]) -> Iterator[Finding]:
    """Yield the members that an update changes and must not change."""
    name = read_name(old)[1]
    if read_name(old) != read_name(overrider):
        yield Finding("immutable", "metadata", f"unable to change metadata after {name} is created")
    if _get_bound_subject(old) != _get_bound_subject(overrider):
        message = f"unable to modify subject after {name} is created: delete it and create another one"
        yield Finding("immutable", "subject", message)


def _get_bound_subject(overrider: Mapping[str, JSON]) -> tuple[JSON, JSON]:
    """Return kind and name of the subject, without its version: a YurtAppSet is served in two."""
    subject = as_object(overrider.get("subject"))
    return subject.get("kind"), subject.get("name")


def read_name(overrider: Mapping[str, JSON]) -> tuple[JSON, JSON]:
    """Return namespace and name of an overrider, which may have any shape."""
    metadata = as_object(overrider.get("metadata"))
    return metadata.get("namespace"), metadata.get("name")
