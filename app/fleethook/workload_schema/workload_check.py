"""Checks a rendered workload as kube-apiserver does: the OpenAPI schema, and rules about several members.

The rules are choices, duplicates, `POD_RULES` and `CONTAINER_RULES`. Sources: Kubernetes v1.36,
pkg/apis/core/validation and pkg/apis/apps/validation.

`make schemas` writes ``json_schema.json``: ``schemas/workload_rules.py`` derives it from the OpenAPI schemas of
kube-apiserver, with the rules about single members.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.model.json import JSON, JSONObject, enumerate_objects
from fleethook.patch import format_pointer
from fleethook.workload_schema.container_and_volume_rules import (
    CONTAINER_RULES,
    DISCRIMINATED,
    find_conflicts,
    find_disallowed,
    load_choices,
)
from fleethook.workload_schema.formats_and_messages import (
    FORMATS,
    VALUE_MESSAGES,
    Rule,
    WorkloadFinding,
    describe_type,
    describe_unknown,
)
from fleethook.workload_schema.go_structs import Kind, load_structs, root_name, struct_name
from fleethook.workload_schema.pod_and_workload_rules import POD_RULES, find_duplicates
from fleethook.workload_schema.pool_value_marks import as_sample
from fleethook.workload_schema.stored_form_and_aliases import decode_workload

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
    rules = [*POD_RULES.get(struct, ()), *CONTAINER_RULES.get(struct, ())]
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


@cache
def _load_definitions() -> Mapping[str, JSONObject]:
    text = Path(__file__).with_name("json_schema.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Any]])


def load_json_schema(kind: Kind) -> JSONObject:
    """Return the JSON Schema (draft 4, whose integers have no decimal point) of a kind.

    Its definitions have the names of `go_structs.load_structs`, so that a validator's schema path names the struct.
    """
    return {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "$ref": f"#/definitions/apps.v1.{kind}",
        "definitions": _load_definitions(),
    }


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
        yield WorkloadFinding(_pointer(path), "value", VALUE_MESSAGES[keyword](value, details))


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
