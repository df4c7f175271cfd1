"""Checks a rendered workload as kube-apiserver does: the OpenAPI schema, and rules about several members.

The rules are choices, duplicates, `STRUCT_RULES` and `CONTAINER_RULES`. Sources: Kubernetes v1.36,
pkg/apis/core/validation and pkg/apis/apps/validation. tests/conformance/workload_rules.yaml has a workload for each
choice, with the answer of kube-apiserver. Lists other than those here may repeat a merge key: ``env``, ``ports``
(except names), ``hostAliases`` and ``imagePullSecrets``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec
from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.model.json import JSON, JSONObject, as_list, as_object, enumerate_objects
from fleethook.patch import format_pointer
from fleethook.workload_schema.container_and_workload_rules import CONTAINER_RULES
from fleethook.workload_schema.go_structs import Kind, load_structs, root_name, struct_name
from fleethook.workload_schema.json_schema import (
    FORMATS,
    MAX_MODE,
    Violation,
    WorkloadFinding,
    describe_enum,
    describe_type,
    describe_unknown,
    load_json_schema,
    shown_value,
)
from fleethook.workload_schema.pool_value_marks import as_sample
from fleethook.workload_schema.stored_form_and_aliases import decode_workload
from fleethook.workload_schema.struct_rules import STRUCT_RULES, Rule


class ExclusiveMembers(NamedTuple):
    """The members of a struct that exclude each other."""

    members: frozenset[str]
    needed: bool
    """Whether kube-apiserver refuses a struct without any of them."""


class Discriminated(NamedTuple):
    """A member that is allowed only with certain values of another one, such as ``type``."""

    discriminator: str
    member: str
    values: frozenset[str]
    """The values of the discriminator that allow the member."""
    needed: bool
    """Whether these values need the member."""


_KEYED_SOURCES: Final = frozenset({"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"})
_CHOICES: Final[Mapping[str, ExclusiveMembers]] = {
    "core.v1.DownwardAPIVolumeFile": ExclusiveMembers(frozenset({"fieldRef", "resourceFieldRef"}), needed=True),
    "core.v1.EnvFromSource": ExclusiveMembers(frozenset({"configMapRef", "secretRef"}), needed=True),
    "core.v1.EnvVar": ExclusiveMembers(frozenset({"value", "valueFrom"}), needed=False),
    "core.v1.EnvVarSource": ExclusiveMembers(_KEYED_SOURCES, needed=True),
    "core.v1.LifecycleHandler": ExclusiveMembers(frozenset({"exec", "httpGet", "sleep", "tcpSocket"}), needed=True),
    "core.v1.PodResourceClaim": ExclusiveMembers(
        frozenset({"resourceClaimName", "resourceClaimTemplateName"}), needed=True
    ),
    "core.v1.Probe": ExclusiveMembers(frozenset({"exec", "grpc", "httpGet", "tcpSocket"}), needed=True),
    "core.v1.VolumeMount": ExclusiveMembers(frozenset({"subPath", "subPathExpr"}), needed=False),
}
_LOCALHOST: Final = Discriminated("type", "localhostProfile", frozenset({"Localhost"}), needed=True)
_ROLLING: Final = Discriminated("type", "rollingUpdate", frozenset({"RollingUpdate", ""}), needed=False)
DISCRIMINATED: Final[Mapping[str, Discriminated]] = {
    "apps.v1.DeploymentStrategy": _ROLLING,
    "apps.v1.StatefulSetUpdateStrategy": _ROLLING,
    "core.v1.AppArmorProfile": _LOCALHOST,
    "core.v1.SeccompProfile": _LOCALHOST,
}


@cache
def load_choices() -> Mapping[str, ExclusiveMembers]:
    """Return the choices by the names of their structs; each struct has one at most."""
    structs = load_structs()
    sources = frozenset(structs["core.v1.Volume"]) - {"name"}
    projections = frozenset(structs["core.v1.VolumeProjection"])
    return {
        **_CHOICES,
        "core.v1.Volume": ExclusiveMembers(sources, needed=False),
        "core.v1.VolumeProjection": ExclusiveMembers(projections, needed=False),
    }


def find_conflicts(choice: ExclusiveMembers, node: JSONObject) -> Iterator[Violation]:
    """Yield the violation of a choice.

    Args:
        choice: The choice of the struct.
        node: The struct, without members that are empty.
    """
    given = [name for name in node if name in choice.members]
    if len(given) > 1:
        advice = "remove one of them" if len(given) == 2 else f"keep one of {', '.join(given)}"
        yield Violation((given[1],), f"may not be set together with {given[0]}: {advice}")
    elif choice.needed and not given:
        yield Violation((), f"must have one of {', '.join(sorted(choice.members))}")


def find_disallowed(rule: Discriminated, node: JSONObject) -> Iterator[Violation]:
    """Yield the violation of a rule about a discriminator.

    Args:
        rule: The rule of the struct.
        node: The struct, without members that are empty.
    """
    value, wanted = node.get(rule.discriminator, ""), " or ".join(sorted(rule.values - {""}))
    if rule.member in node and value not in rule.values:
        yield Violation((rule.member,), f"may only be set if {rule.discriminator} is {wanted}, not {value}")
    elif rule.needed and rule.member not in node and value in rule.values:
        yield Violation((rule.member,), f"is required if {rule.discriminator} is {wanted}")


_POD_SPEC: Final = "/spec/template/spec"
CONTAINER_LISTS: Final = ("initContainers", "containers")
IN_POD: Final = (
    ("volumes", ("name",)),
    ("resourceClaims", ("name",)),
    ("schedulingGates", ("name",)),
    ("topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable")),
)
_IN_CONTAINER: Final = (
    ("ports", ("name",)),
    ("resizePolicy", ("resourceName",)),
    ("volumeDevices", ("devicePath",)),
    ("volumeMounts", ("mountPath",)),
)


def find_duplicates(workload: JSONObject) -> Iterator[WorkloadFinding]:
    """Yield a finding for each element of the pod template whose identity an earlier element has."""
    pod_spec = as_object(as_object(as_object(workload.get("spec")).get("template")).get("spec"))
    yield from _find_repeated([(_POD_SPEC, pod_spec, name) for name in CONTAINER_LISTS], ("name",))
    for name, keys in IN_POD:
        yield from _find_repeated([(_POD_SPEC, pod_spec, name)], keys)
    for list_name in CONTAINER_LISTS:
        for pointer, container in _list_elements(_POD_SPEC, pod_spec, list_name):
            for name, keys in _IN_CONTAINER:
                yield from _find_repeated([(pointer, container, name)], keys)


_List = tuple[str, JSON, str]
"""The pointer of an object, the object, and the name of a list in it."""


def _find_repeated(lists: list[_List], keys: tuple[str, ...]) -> Iterator[WorkloadFinding]:
    first: dict[tuple[JSON, ...], str] = {}
    for pointer, element in (found for where in lists for found in _list_elements(*where)):
        identity = tuple(element.get(key) for key in keys)
        if not all(isinstance(value, str) for value in identity):
            continue  # An optional member, or one with a wrong type, which has its own finding.
        earlier = first.setdefault(identity, pointer)
        if earlier != pointer:
            identifying = ", ".join(f"{key} {json.dumps(value)}" for key, value in zip(keys, identity, strict=True))
            yield WorkloadFinding(
                pointer, "duplicate", f"{earlier} has the same {identifying}: rename or remove one of them"
            )


def _list_elements(pointer: str, node: JSON, name: str) -> Iterator[tuple[str, JSONObject]]:
    for index, element in enumerate(as_list(as_object(node).get(name))):
        if isinstance(element, dict):
            yield f"{pointer}/{name}/{index}", element


_Path = tuple[str | int, ...]
_Visit = Callable[[JSON, _Path], Iterator[WorkloadFinding]]
"""Yields the findings about a value at a path."""
# kube-apiserver and the owner write these.
_NOT_CHECKED: Final = frozenset({"status", "managedFields", "ownerReferences"})


def find_violations(workload: JSONObject, kind: Kind) -> Iterator[WorkloadFinding]:
    """Yield the violations in a workload, outer structs first.

    Args:
        workload: A result of `fleethook.workload_schema.stored_form_and_aliases.decode_workload` without values of a
            wrong type.
        kind: Its kind.
    """
    visit = _compile_visit(root_name(kind))
    if visit is not None:
        yield from visit(workload, ())


@cache
def list_rules(struct: str) -> tuple[Rule, ...]:
    """Return the rules of a struct."""
    rules = [*STRUCT_RULES.get(struct, ()), *CONTAINER_RULES.get(struct, ())]
    if struct in load_choices():
        rules.append(partial(find_conflicts, load_choices()[struct]))
    if struct in DISCRIMINATED:
        rules.append(partial(find_disallowed, DISCRIMINATED[struct]))
    return tuple(rules)


@cache
def _compile_visit(struct: str) -> _Visit | None:
    """Return the function that visits a struct and the structs inside; None if no rule is about any of them."""
    rules = list_rules(struct)
    members: dict[str, _Visit] = {}
    for name, field in load_structs()[struct].items():
        inner = struct_name(field.type)
        if inner is not None and name not in _NOT_CHECKED and (visit := _compile_visit(inner)) is not None:
            members[name] = _visit_each(visit) if field.type.startswith("[]") else visit
    return _visit_struct(rules, members) if rules or members else None


def _visit_struct(rules: tuple[Rule, ...], members: Mapping[str, _Visit]) -> _Visit:
    def visit(value: JSON, path: _Path) -> Iterator[WorkloadFinding]:
        if not isinstance(value, dict):
            return
        for rule in rules:
            for tokens, message, problem in rule(value):
                yield WorkloadFinding(format_pointer([*map(str, (*path, *tokens))]), problem, message)
        for name in members.keys() & value.keys():
            yield from members[name](value[name], (*path, name))

    return visit


def _visit_each(visit: _Visit) -> _Visit:
    def visit_each(value: JSON, path: _Path) -> Iterator[WorkloadFinding]:
        for number, element in enumerate_objects(value):
            yield from visit(element, (*path, number))

    return visit_each


MAX_FINDINGS: Final = 50
"""Enough to correct a workload. A hostile one could have a million, each with a search for the nearest name."""

MAX_LISTED_BYTES: Final = 64 * 1024
"""Of a larger workload, only the first violation is reported: the validator lists one or all of them."""

_InstancePath = Sequence[str | int]


def check_workload(document: JSONObject, kind: Kind) -> list[WorkloadFinding]:
    """Return the findings about a workload, sorted by pointer: at most `MAX_FINDINGS`, none if it is valid.

    Nulls and the zero values that kube-apiserver drops are valid. The content of ``status``,
    ``metadata.ownerReferences`` and ``metadata.managedFields`` is not checked.

    Args:
        document: The object with ``metadata`` and ``spec``.
        kind: The kind of its schema.
    """
    return check_decoded(decode_workload(document, kind), kind)


def check_decoded(decoded: JSONObject, kind: Kind) -> list[WorkloadFinding]:
    """Return the findings of `check_workload` about a result of `decode_workload`."""
    checker = load_checker(kind)
    try:
        errors, are_all = find_errors(checker.validator, decoded)
    except ValueError as error:
        return [WorkloadFinding("", "value", f"cannot be checked: {error}")]
    of_schema = (finding for error in errors for finding in _describe_error(error, checker))
    # The rules need values of the right types.
    violations = find_violations(decoded, kind) if are_all and all(map(_has_type, errors)) else ()
    return sorted(islice(chain(find_duplicates(decoded), of_schema, violations), MAX_FINDINGS))


def find_errors(validator: Draft4Validator, document: JSONObject) -> tuple[Sequence[ValidationError], bool]:
    """Return violations of the schema, and whether these are all; only the first one in a large document.

    Raises:
        ValueError: The document is nested too deeply for the validator.
    """
    if validator.is_valid(document):
        return (), True
    if len(msgspec.json.encode(document)) <= MAX_LISTED_BYTES:
        errors = list(islice(validator.iter_errors(document), MAX_FINDINGS))
        return errors, len(errors) < MAX_FINDINGS
    try:
        validator.validate(document)
    except ValidationError as error:
        return (error,), False
    raise AssertionError("the document is both valid and not")


def _has_type(error: ValidationError) -> bool:
    return error.kind.name != "type"


class Checker(NamedTuple):
    """The schema of a kind."""

    kind: Kind
    definitions: Mapping[str, JSONObject]
    validator: Draft4Validator


@cache
def load_checker(kind: Kind) -> Checker:
    """Return the checker of a kind."""
    schema = load_json_schema(kind)
    return Checker(kind, schema["definitions"], make_validator(schema))


def make_validator(schema: JSONObject) -> Draft4Validator:
    """Return the validator of a schema."""
    formats: dict[str, Callable[..., bool]] = {name: partial(_has_format, name) for name in FORMATS}
    return Draft4Validator(schema, formats=formats, validate_formats=True, offline=True)


def _has_format(name: str, text: str) -> bool:
    return not text or FORMATS[name](as_sample(text)) is None


def _describe_error(error: ValidationError, checker: Checker) -> Iterator[WorkloadFinding]:
    path = error.instance_path
    keyword, details, value = error.kind.name, error.kind.as_dict(), error.instance
    if keyword == "additionalProperties":
        structs = _list_structs(path, checker.kind)
        for name in details["unexpected"]:
            yield WorkloadFinding(_pointer(path, name), "unknown", describe_unknown(name, structs[0], structs[1:]))
    elif keyword == "required":
        yield WorkloadFinding(_pointer(path, details["property"]), "missing", "is required: set it")
    elif keyword == "type":
        definition = _find_definition(error.schema_path, checker.definitions)
        members, required = definition.get("properties", {}), definition.get("required", ())
        yield WorkloadFinding(_pointer(path), "type", describe_type(value, details["types"], members, required))
    else:
        yield WorkloadFinding(_pointer(path), "value", _VALUE_MESSAGES[keyword](value, details))


_VALUE_MESSAGES: Final[Mapping[str, Callable[[JSON, JSONObject], str]]] = {
    "enum": lambda value, details: describe_enum(value, details["options"]),
    "format": lambda value, details: _describe_format(value, details["format"]),
    "minimum": lambda value, details: f"must be {details['limit']} or more, not {value}",
    "minLength": lambda _value, _details: "must not be empty",
    "maximum": lambda value, details: _describe_maximum(value, details["limit"]),
}


def _describe_maximum(value: JSON, limit: int) -> str:
    if limit == MAX_MODE:
        return f"must be {limit} (octal 0777) or less, not {value}: write file modes in octal, as in 0644"
    return f"must be {limit} or less, not {value}"


def _describe_format(value: JSON, name: str) -> str:
    if name not in FORMATS:
        return f"must be a {name} (RFC 3339), not {shown_value(value)}"
    problem = FORMATS[name](as_sample(value)) or ""
    quoted = ": remove the quotes" if name == "port" and value.isdecimal() else ""
    return f"{problem}, not {shown_value(value)}{quoted}" if problem.startswith("must") else problem


def _find_definition(schema_path: _InstancePath, definitions: Mapping[str, JSONObject]) -> JSONObject:
    """Return the definition whose type is wrong; an empty one if the type of a member is wrong."""
    inner = schema_path[-2]
    return definitions.get(inner, {}) if schema_path[-3] == "definitions" and isinstance(inner, str) else {}


def _list_structs(path: _InstancePath, kind: Kind) -> list[str]:
    """Return the structs along a path, the innermost first."""
    found = [root_name(kind)]
    for token in path:
        field = load_structs()[found[0]].get(str(token))
        inner = struct_name(field.type) if field and isinstance(token, str) else None
        if inner is not None:
            found.insert(0, inner)
    return found


def _pointer(path: _InstancePath, *more: str) -> str:
    return format_pointer([*map(str, path), *more])
