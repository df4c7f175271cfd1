"""Structural schemas of custom resources: sets defaults, and finds values that are refused, as kube-apiserver does."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.model.gvk import DEFINITION
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects
from fleethook.workload_schema.formats_and_messages import CUSTOM_RESOURCE_FORMATS

OWN_MEMBERS: Final = ("apiVersion", "kind", "metadata")
"""The members of every object, which schemas need not have."""
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"


class CustomVersion(NamedTuple):
    """A version of a custom resource."""

    schema: Mapping[str, JSON]
    """The structural schema, empty if it is unknown."""
    has_status: bool
    """Whether it has the subresource status."""


def find_version(definition: Mapping[str, JSON], name: str) -> CustomVersion | None:
    """Return a version of a CustomResourceDefinition or an APIResourceSchema, None if it has no such version."""
    for version in list_objects(as_object(definition.get("spec")).get("versions")):
        if version.get("name") == name:
            schema = as_object(version.get("schema"))
            has_status = as_object(version.get("subresources")).get("status") is not None
            return CustomVersion(as_object(schema.get("openAPIV3Schema", schema)), has_status)
    return None


def find_kind_version(documents: Iterable[JSON], document: Mapping[str, JSON]) -> CustomVersion | None:
    """Return the version of an object's kind that a CustomResourceDefinition among documents defines, None without."""
    group, _, version = as_text(document.get("apiVersion")).rpartition("/")
    for one in documents:
        spec = as_object(as_object(one).get("spec"))
        names = as_object(spec.get("names"))
        is_definition = as_object(one).get("kind") == DEFINITION.kind
        if is_definition and (spec.get("group"), names.get("kind")) == (group, document.get("kind")):
            return find_version(one, version)
    return None


class _Schema(msgspec.Struct, rename="camel"):
    """The parts of a schema that lead to defaults."""

    properties: "dict[str, _Schema] | None" = None
    items: "_Schema | None" = None
    additional_properties: "_Schema | bool | None" = None
    default: Any = None
    nullable: bool = False


class _Definition(msgspec.Struct):
    """The schema of a version of a CustomResourceDefinition, in its member."""

    schema: _Schema | None = msgspec.field(default=None, name="openAPIV3Schema")


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_definition: Final = msgspec.json.Decoder(_Definition).decode
_decode_schema: Final = msgspec.json.Decoder(_Schema).decode


def read_defaults(text: bytes | msgspec.Raw) -> JSONObject | None:
    """Return a schema with nothing but its defaults, None without any.

    Args:
        text: The member ``schema`` of a version of a CustomResourceDefinition or an APIResourceSchema.
    """
    if b'"default"' not in bytes(text):
        return None
    try:
        schema = _decode_definition(text).schema
        return _reduce(_decode_schema(text) if schema is None else schema)
    except (msgspec.DecodeError, RecursionError):
        return None  # kube-apiserver refuses such a schema.


def _reduce(schema: _Schema) -> JSONObject | None:
    reduced: JSONObject = {}
    if schema.default is not None:
        reduced = {"default": schema.default} | ({"nullable": True} if schema.nullable else {})
    properties = {name: made for name, one in (schema.properties or {}).items() if (made := _reduce(one)) is not None}
    if properties:
        reduced["properties"] = properties
    for name, inner in (("items", schema.items), ("additionalProperties", schema.additional_properties)):
        if isinstance(inner, _Schema) and (made := _reduce(inner)) is not None:
            reduced[name] = made
    return {**reduced, _KEEPS_UNKNOWN: True} if reduced else None


_UNSET: Final = object()
"""A null that is no value of its schema, and has no default."""


def set_schema_defaults(
    value: JSON, schema: Mapping[str, JSON], *, prune: bool = False, max_members: int | None = None
) -> JSON:
    """Return a value with the defaults of a structural schema.

    Source: k8s.io/apiextensions-apiserver v0.36 pkg/apiserver/schema, defaulting/algorithm.go, defaulting/prunenulls.go
    and pruning/algorithm.go.

    Args:
        value: A JSON value; it stays unchanged. The result shares parts of it, and may share defaults.
        schema: The schema of a version, or a part of it.
        prune: Whether to drop members that the schema lacks, and nulls that are no values of it.
        max_members: The number of members that defaults may add, None for any.

    Raises:
        ValueError: The defaults exceed the limit, or the value and the schema are nested too deep.
    """
    try:
        return _Defaulting(max_members, prune=prune).apply(value, schema)
    except RecursionError:
        raise ValueError("the object and its schema are nested too deep") from None


class _Defaulting:
    """Sets the defaults of one value."""

    def __init__(self, max_members: int | None, *, prune: bool) -> None:
        self._prune: Final = prune
        self._left = max_members
        self._defaults: Final[dict[int, JSON]] = {}
        """Defaults by the id of their schema, and those of all members by the id of ``properties``."""

    def apply(self, value: JSON, schema: Mapping[str, JSON]) -> JSON:
        if isinstance(value, list):
            items = as_object(schema.get("items"))
            # Unlike a null member, a null element without a default stays.
            return [None if (made := self._show(one, items)) is _UNSET else made for one in value]
        if not isinstance(value, dict):
            return value
        properties, rest = as_object(schema.get("properties")), schema.get("additionalProperties")
        keeps_all = not self._prune or rest or schema.get(_KEEPS_UNKNOWN)
        is_embedded = schema.get("x-kubernetes-embedded-resource")
        shown: JSONObject = {}
        for name, given in value.items():
            inner = properties.get(name, rest)
            if isinstance(inner, dict):
                made = self._show(given, inner)
                if made is not _UNSET or not self._prune:
                    shown[name] = None if made is _UNSET else made
            elif keeps_all or (is_embedded and name in OWN_MEMBERS):
                shown[name] = given
        missing = {name: one for name, one in self._list_defaults(properties).items() if name not in value}
        if self._left is not None:
            self._left -= len(missing)
            if self._left < 0:
                raise ValueError("its defaults have too many members")
        return {**shown, **missing}

    def _show(self, value: JSON, schema: Mapping[str, JSON]) -> JSON:
        """Return a member or an element, with a default for a null; `_UNSET` for a null without one."""
        if value is not None or not schema or schema.get("nullable"):
            return self.apply(value, schema)
        return self._find_default(schema)

    def _find_default(self, schema: Mapping[str, JSON]) -> JSON:
        if id(schema) not in self._defaults:
            default = schema.get("default")
            self._defaults[id(schema)] = _UNSET if default is None else self.apply(default, schema)
        return self._defaults[id(schema)]

    def _list_defaults(self, properties: Mapping[str, JSON]) -> Mapping[str, JSON]:
        if not properties:
            return properties
        if id(properties) not in self._defaults:
            found = {name: self._find_default(inner) for name, inner in properties.items() if isinstance(inner, dict)}
            self._defaults[id(properties)] = {name: one for name, one in found.items() if one is not _UNSET}
        known: Mapping[str, JSON] = self._defaults[id(properties)]
        return known


_SHARED: Final = frozenset({
    "enum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minProperties", "minimum", "multipleOf", "x-kubernetes-validations",
})  # fmt: skip
"""The keywords with the meaning that they have in JSON Schema, or in `_KEYWORDS`."""


def find_violation(document: JSONObject, schema: Mapping[str, JSON], old: JSON = None) -> str:
    """Return why kube-apiserver refuses a custom resource by its schema, ``""`` if it does not.

    Source: k8s.io/apiextensions-apiserver v0.36 pkg/apiserver/validation and pkg/apiserver/schema/cel. Duplicates in
    lists, rules about ``oldSelf``, and formats other than `CUSTOM_RESOURCE_FORMATS` are not checked.

    Args:
        document: The object, with defaults.
        schema: The schema of its version.
        old: The stored object. An update may keep its invalid values (KEP-4008).
    """
    try:
        validator = Draft4Validator(_adapt(schema), keywords=_KEYWORDS, validate_formats=True, offline=True)
        for error in validator.iter_errors(document):
            path = error.instance_path
            if not _is_whole_number(error) and (old is None or not _is_stored(path, document, old)):
                return f"{'.'.join(map(str, path)) or 'the object'}: {error.message}"
    except (ValueError, RecursionError):
        return ""  # It is nested too deeply.
    return ""


def _adapt(schema: Mapping[str, JSON]) -> JSONObject:
    """Return a structural schema in the terms of JSON Schema."""
    adapted = {name: value for name, value in schema.items() if name in _SHARED}
    for name in ("items", "additionalProperties", "not"):
        if isinstance(inner := schema.get(name), dict):
            adapted[name] = _adapt(inner)
    for name in ("allOf", "anyOf", "oneOf"):
        if parts := [*map(_adapt, list_objects(schema.get(name)))]:
            adapted[name] = parts
    adapted["properties"] = {name: _adapt(as_object(one)) for name, one in as_object(schema.get("properties")).items()}
    if schema.get("required"):
        adapted["required"] = schema["required"]
    if schema.get("x-kubernetes-int-or-string") or "type" in schema:
        types = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [schema["type"]]
        adapted["type"] = [*types, *(["null"] if schema.get("nullable") else [])]
    if schema.get("format") in CUSTOM_RESOURCE_FORMATS:
        adapted["format"] = schema["format"]
    if "pattern" in schema:
        adapted[_PATTERN] = schema["pattern"]
    return adapted


def _is_whole_number(error: ValidationError) -> bool:
    """Return whether the error is about 1.0, which Kubernetes takes for an integer, other than draft 4."""
    is_whole = isinstance(error.instance, float) and error.instance.is_integer()
    return is_whole and error.kind.name == "type" and "integer" in error.kind.as_dict()["types"]


def _is_stored(path: Sequence[str | int], value: JSON, old: JSON) -> bool:
    """Return whether the stored object has the value at a path, or one around it; elements of lists do not count."""
    for step in path:
        if value == old or isinstance(step, int):
            break
        value, old = value[step], as_object(old).get(step)
    return bool(value == old)


class _Pattern:
    """A pattern in Go's syntax."""

    def __init__(self, _parent: JSON, pattern: str, _path: object) -> None:
        from fleethook.cel.library.strings_and_regex import compile_pattern  # noqa: PLC0415 - few commands need CEL, which is large

        self._pattern: Final = compile_pattern(pattern)

    def validate(self, value: JSON) -> None:
        """Raise ValueError if a text does not match."""
        if isinstance(value, str) and not self._pattern.search(value):
            raise ValueError(f'"{value}" does not match "{self._pattern.pattern}"')


class _Rules:
    """Rules in CEL about a value."""

    def __init__(self, _parent: JSON, rules: JSON, _path: object) -> None:
        self._checks: Final = [*_compile_rules(rules)]

    def validate(self, value: JSON) -> None:
        """Raise ValueError if a rule is false."""
        for is_valid, message in self._checks:
            if not is_valid(value):
                raise ValueError(message)


def _compile_rules(rules: JSON) -> Iterator[tuple[Callable[[JSON], bool], str]]:
    """Yield the checks of rules, with their messages."""
    from fleethook.cel.compile_error_list import ExpressionError  # noqa: PLC0415 - as above
    from fleethook.cel.program import (  # noqa: PLC0415 - as above
        Activation,
        EvaluationError,
        Program,
        compile_condition,
    )

    def is_valid(program: Program, value: JSON) -> bool:
        try:
            return program.evaluate(Activation(object_=value, old_object=None, request={}))
        except EvaluationError as error:
            # Without the types of the schema, other errors may be none in kube-apiserver.
            return not error.cause.startswith("no such key")

    for one in list_objects(rules):
        rule = as_text(one.get("rule"))
        # kube-apiserver escapes names of members with "__".
        if "oldSelf" not in rule and "__" not in rule:
            with suppress(ExpressionError):
                program = compile_condition(f"[object].all(self, {rule}\n)")
                yield partial(is_valid, program), as_text(one.get("message")) or f"failed rule: {rule}"


_PATTERN: Final = "x-pattern"
_KEYWORDS: Final[Any] = {_PATTERN: _Pattern, "x-kubernetes-validations": _Rules}
