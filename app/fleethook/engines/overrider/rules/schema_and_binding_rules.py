"""Rules for a YurtAppOverrider: its schema, its binding to a subject, and the order of all rules for it.

Admission, ``render``, ``lint`` and ``serve --manifests`` report the same findings. kube-apiserver drops unknown fields.
Here they are errors, because a dropped field is a mistake without a message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.api_schema import describe_mistake, load_served
from fleethook.cluster.registration.webhook_configurations import list_definitions
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import Remark
from fleethook.engines.overrider.rules.entry_rules import SchemaMistakes, check_entry
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.missing_pools import (
    SubjectPools,
    check_controller,
    check_node_pools,
    check_pools,
    known_pools,
)
from fleethook.engines.overrider.rules.subject_template_rules import check_template
from fleethook.engines.overrider.rules.trial_render import dry_run_overrider
from fleethook.engines.overrider.subject.bound_overriders import find_binding, overriders_of, subject_of
from fleethook.engines.overrider.subject.subject_and_pools import NodePoolView, Subject, find_subject
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects
from fleethook.model.openyurt import GROUP, SUBJECT_KINDS, SUBJECT_VERSIONS, YURT_APP_OVERRIDER
from fleethook.workload_schema.workload_check import find_errors

_ENDS: Final = re.compile(r"[.\[]|$")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_SUGGESTED: Final = re.compile(r"did you mean (\w+)\?")
# The examples of the proposal have `nameSpace`.
_NAMESPACE: Final = "is not a field: a subject is always in the namespace of its overrider; remove it"
_ITEM: Final = re.compile(r"entries\[\d+\]\.items\[\d+\]\.\w+")
_LIMITS: Final = {"minimum": "at least", "maximum": "at most"}
# Rules that explain more decide about these: an empty selector, and a path that is no JSON pointer.
_OTHER_RULES: Final = frozenset({"minProperties", "pattern"})


def _check_alone(overrider: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in an overrider that need no subject to be findings, with field paths."""
    findings, are_all = _check_schema(overrider)
    yield from findings
    if not are_all:
        return
    mistakes = SchemaMistakes(
        frozenset(finding.field[: end.start()] for finding in findings for end in _ENDS.finditer(finding.field)),
        frozenset(finding.field.rpartition(".")[0] for finding in findings if finding.code == "unknown-field"),
    )
    if "subject" not in mistakes.places and "subject" in overrider:
        yield from _check_version(overrider["subject"])
    for number, entry in enumerate_objects(overrider.get("entries")):
        yield from check_entry(f"entries[{number}]", entry, mistakes)


def _check_version(subject: Mapping[str, JSON]) -> Iterator[Finding]:
    kind, version = subject["kind"], subject.get("apiVersion")
    known = [f"{GROUP}/{one}" for one in SUBJECT_VERSIONS[GroupKind(GROUP, kind)]]
    if version and version not in known:
        message = f"must be {' or '.join(known)}, not {version!r}; {kind} has no other version to override"
        yield Finding("unsupported", "subject.apiVersion", message)


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


# Comparing a name with more names than these takes too long for a suggestion.
_MAX_COMPARED: Final = 1000


def unknown_subject(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool
) -> Finding:
    """Return the finding about an overrider whose subject is not in the store.

    Args:
        overrider: An overrider whose subject is valid.
        cluster: Its logical cluster.
        namespace: Its namespace.
        store: The known subjects.
        every_namespace: Whether the message may name subjects of other namespaces. At admission it must not: the author
            of an overrider may lack the permission to see them.
    """
    kind, name = subject_of(overrider) or ("", "")
    qualified = f"{namespace}/{name}" if namespace else name
    message = f"{kind} {qualified} is not known yet, so nothing could be rendered to check this"
    hint = _suggest_kind(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint and every_namespace:
        hint = _suggest_namespace(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint:
        names = list(_list_names(GroupKind(GROUP, kind), cluster=cluster, namespace=namespace, store=store))
        hint = suggestion(name, names) if len(names) <= _MAX_COMPARED else ""
    return Finding("unknown-subject", "subject.name", message + hint)


def _suggest_kind(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    for other in sorted(SUBJECT_KINDS):
        if other.kind != kind and store.get(cluster, other, namespace, name) is not None:
            return f"; {other.kind} {name} exists: did you mean kind {other.kind}?"
    return ""


def _suggest_namespace(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    namespaces = sorted(
        document["metadata"].get("namespace") or ""
        for document in store.each(cluster, GroupKind(GROUP, kind))
        if document["metadata"]["name"] == name
    )
    if not namespaces:
        return ""
    where = f"namespace {namespaces[0]}" if namespaces[0] else "no namespace"
    own = f"namespace {namespace}" if namespace else "no namespace"
    return f"; {kind} {name} is in {where} and the overrider in {own}: an overrider must be in its subject's namespace"


def _list_names(group_kind: GroupKind, *, cluster: str, namespace: str, store: StoreView) -> Iterator[str]:
    for document in store.each(cluster, group_kind):
        if (document["metadata"].get("namespace") or "") == namespace:
            yield document["metadata"]["name"]


def _check_binding(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Iterator[Finding]:
    binding = find_binding(cluster, overrider, namespace=namespace)
    if binding is None:
        return
    bound = overriders_of(store, binding)
    own_name = overrider["metadata"].get("name")
    others = [other["metadata"]["name"] for other in bound if other["metadata"]["name"] != own_name]
    if others:
        message = (
            f"unable to bind multiple yurtappoverriders to one subject resource {binding.name} in namespace "
            f"{namespace}, {others[0]} already exists"
        )
        yield Finding("duplicate", "subject.name", message)


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


# A suggestion takes some 50 µs, so the rules take at most 50 ms for any overrider.
_MAX_FINDINGS: Final = 1000
_FIELD: Final = re.compile(r"((?:entries|subject)[^:]*): ", re.ASCII)


class OverriderInputs(NamedTuple):
    """The objects that the findings about an overrider depend on, at one moment."""

    subject: Subject | None
    pools: SubjectPools | None
    """The node pools of the subject."""
    rivals: tuple[Finding, ...]
    """The findings about other overriders of the subject."""
    effects: tuple[Finding, ...]
    """The findings about the subject, if the overrider has no mistake of its own."""


def check_overrider(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool = False
) -> tuple[Finding, ...]:
    """Return all errors and warnings about an overrider.

    Args:
        overrider: An object with metadata.
        cluster: Its logical cluster, ``""`` for a plain one.
        namespace: Its namespace.
        store: The other overriders, the subject and the node pools.
        every_namespace: Whether messages may name subjects of other namespaces.
    """
    inputs = read_inputs(overrider, cluster=cluster, namespace=namespace, store=store, every_namespace=every_namespace)
    return judge_overrider(overrider, inputs)


def read_inputs(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool = False
) -> OverriderInputs:
    """Return the objects that the findings about an overrider depend on; arguments as for `check_overrider`."""
    rivals = tuple(_check_binding(overrider, cluster=cluster, namespace=namespace, store=store))
    subject = find_subject(overrider, cluster=cluster, namespace=namespace, store=store)
    pools = None if subject is None else pools_to_check(subject, store, overrider)
    kind, _ = subject_of(overrider) or ("", "")
    effects = [*check_controller(kind, cluster=cluster, store=store)]
    if subject is None:
        effects.append(
            unknown_subject(
                overrider, cluster=cluster, namespace=namespace, store=store, every_namespace=every_namespace
            )
        )
    return OverriderInputs(subject, pools, rivals, tuple(effects))


def judge_overrider(overrider: JSONObject, inputs: OverriderInputs) -> tuple[Finding, ...]:
    """Return all errors and warnings about an overrider. It takes long, and reads nothing that changes.

    The rules for the subject and the entries come first. If they find no error, the overrider is rendered for each node
    pool of its subject.
    """
    findings = [*check_rules(overrider), *inputs.rivals]
    if any(finding.level == "error" and finding.field.startswith(("entries", "subject")) for finding in findings):
        return tuple(findings)
    findings += inputs.effects
    if inputs.subject is not None and inputs.pools is not None:
        findings += check_fit(overrider, inputs.subject, inputs.pools, known=findings)
    return tuple(findings)


def pools_to_check(subject: Subject, store: NodePoolView, overrider: JSONObject) -> SubjectPools:
    """Return the node pools of a subject, with the findings that do not depend on its overrider."""
    return known_pools(subject, store, overriders=(overrider,))._replace(
        effects=tuple(check_node_pools(subject, store=store))
    )


def check_rules(overrider: JSONObject) -> list[Finding]:
    """Return the findings of the rules that need no subject, at most `_MAX_FINDINGS`."""
    return [*islice(_check_alone(overrider), _MAX_FINDINGS)]


def check_fit(
    overrider: JSONObject, subject: Subject, pools: SubjectPools, *, known: Sequence[Finding]
) -> list[Finding]:
    """Return the findings of rendering the overrider for each node pool of its subject.

    Args:
        overrider: An overrider of a valid shape.
        subject: Its subject.
        pools: The node pools of the subject.
        known: The findings without the subject, which are not reported again.
    """
    dry_run = dry_run_overrider(overrider, subject, pools.names, node_pools=pools.node_pools)
    unused = {finding.field.removesuffix(".pools") for finding in known if finding.code == "unused-entry"}
    of_pools = check_pools(overrider, subject, pools, unused=unused)
    return [
        *(Finding("does-not-fit", cause.field, cause.message) for cause in dry_run.causes),
        *pools.effects,
        *check_template(subject.group_kind, subject.document),
        *of_pools,
        *map(_to_finding, dry_run.warnings),
    ]


def _to_finding(remark: Remark) -> Finding:
    """Return a warning of the dry run as a finding. Its text begins with the path in the overrider, if it has one."""
    field = _FIELD.match(remark.text)
    return Finding(remark.code, field[1] if field else "", remark.text[field.end() if field else 0 :])
