"""Checks a rendered Deployment or StatefulSet against Kubernetes' OpenAPI schema, like kube-apiserver."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec
from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.engines.overrider.entries.value_marks import as_sample
from fleethook.engines.overrider.schema.findings import (
    Finding,
    describe_enum,
    describe_type,
    describe_unknown,
    shown_value,
)
from fleethook.engines.overrider.schema.formats import FORMATS
from fleethook.engines.overrider.schema.go_structs import Kind, load_structs, root_name, struct_name
from fleethook.engines.overrider.schema.json_schema import MAX_MODE, json_schema, load_openapi
from fleethook.engines.overrider.schema.normalize import decode_workload
from fleethook.engines.overrider.schema.violations import find_duplicates, find_violations
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import format_pointer

MAX_FINDINGS: Final = 50
"""Enough to correct a workload. A hostile one could have a million, each with a search for the nearest name."""

MAX_LISTED_BYTES: Final = 64 * 1024
"""Of a larger workload, only the first violation is reported: the validator lists one or all of them."""

_Path = Sequence[str | int]


def check_workload(document: JSONObject, kind: Kind) -> list[Finding]:
    """Return the findings about a workload, sorted by pointer: at most `MAX_FINDINGS`, none if it is valid.

    Nulls and the zero values that kube-apiserver drops are valid. The content of ``status``,
    ``metadata.ownerReferences`` and ``metadata.managedFields`` is not checked.

    Args:
        document: The object with ``metadata`` and ``spec``.
        kind: The kind of its schema.
    """
    return check_decoded(decode_workload(document, kind), kind)


def check_decoded(decoded: JSONObject, kind: Kind) -> list[Finding]:
    """Return the findings of `check_workload` about a result of `decode_workload`."""
    checker = _load_checker(kind)
    try:
        errors, are_all = _find_errors(checker.validator, decoded)
    except ValueError as error:
        return [Finding("", "value", f"cannot be checked: {error}")]
    of_schema = (finding for error in errors for finding in _describe_error(error, checker))
    # The rules need values of the right types.
    violations = find_violations(decoded, kind) if are_all and all(map(_has_type, errors)) else ()
    return sorted(islice(chain(find_duplicates(decoded), of_schema, violations), MAX_FINDINGS))


def _find_errors(validator: Draft4Validator, document: JSONObject) -> tuple[Sequence[ValidationError], bool]:
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


class _Checker(NamedTuple):
    kind: Kind
    definitions: Mapping[str, JSONObject]
    validator: Draft4Validator


@cache
def _load_checker(kind: Kind) -> _Checker:
    schema = json_schema(load_openapi(), kind)
    formats: dict[str, Callable[..., bool]] = {name: partial(_has_format, name) for name in FORMATS}
    validator = Draft4Validator(schema, formats=formats, validate_formats=True, offline=True)
    return _Checker(kind, schema["definitions"], validator)


def _has_format(name: str, text: str) -> bool:
    return not text or FORMATS[name](as_sample(text)) is None


def _describe_error(error: ValidationError, checker: _Checker) -> Iterator[Finding]:
    path = error.instance_path
    keyword, details, value = error.kind.name, error.kind.as_dict(), error.instance
    if keyword == "additionalProperties":
        structs = _list_structs(path, checker.kind)
        for name in details["unexpected"]:
            yield Finding(_pointer(path, name), "unknown", describe_unknown(name, structs[0], structs[1:]))
    elif keyword == "required":
        yield Finding(_pointer(path, details["property"]), "missing", "is required: set it")
    elif keyword == "type":
        definition = _find_definition(error.schema_path, checker.definitions)
        members, required = definition.get("properties", {}), definition.get("required", ())
        yield Finding(_pointer(path), "type", describe_type(value, details["types"], members, required))
    else:
        yield Finding(_pointer(path), "value", _VALUE_MESSAGES[keyword](value, details))


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


def _find_definition(schema_path: _Path, definitions: Mapping[str, JSONObject]) -> JSONObject:
    """Return the definition whose type is wrong; an empty one if the type of a member is wrong."""
    inner = schema_path[-2]
    return definitions.get(inner, {}) if schema_path[-3] == "definitions" and isinstance(inner, str) else {}


def _list_structs(path: _Path, kind: Kind) -> list[str]:
    """Return the structs along a path, the innermost first."""
    found = [root_name(kind)]
    for token in path:
        field = load_structs()[found[0]].get(str(token))
        inner = struct_name(field.type) if field and isinstance(token, str) else None
        if inner is not None:
            found.insert(0, inner)
    return found


def _pointer(path: _Path, *more: str) -> str:
    return format_pointer([*map(str, path), *more])
