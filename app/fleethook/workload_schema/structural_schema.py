"""Finds values that the structural schema of a custom resource refuses, as kube-apiserver does.

Source: k8s.io/apiextensions-apiserver v0.36, pkg/apiserver/validation and pkg/apiserver/schema/cel. Not checked are
duplicates in lists, rules about ``oldSelf``, and formats other than `_FORMATS`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.cel.evaluation import EvaluationError, ExpressionError
from fleethook.cel.library.strings import compile_pattern
from fleethook.cel.program import Activation, Program, compile_condition
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects

_SHARED: Final = frozenset({
    "enum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minProperties", "minimum", "multipleOf", "x-kubernetes-validations",
})  # fmt: skip
"""The keywords with the meaning that they have in JSON Schema, or in `_KEYWORDS`."""
# JSON Schema has other rules for the remaining formats.
_FORMATS: Final = ("date-time", "ipv4", "ipv6")


def find_violation(document: JSONObject, schema: Mapping[str, JSON], old: JSON = None) -> str:
    """Return why kube-apiserver refuses a custom resource by its schema, ``""`` if it does not.

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
    except ValueError:
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
    if schema.get("format") in _FORMATS:
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
        self._pattern: Final = compile_pattern(pattern)

    def validate(self, value: JSON) -> None:
        """Raise ValueError if a text does not match."""
        if isinstance(value, str) and not self._pattern.search(value):
            raise ValueError(f'"{value}" does not match "{self._pattern.pattern}"')


class _Rules:
    """Rules in CEL about a value."""

    def __init__(self, _parent: JSON, rules: JSON, _path: object) -> None:
        self._programs: Final = [*_compile_rules(rules)]

    def validate(self, value: JSON) -> None:
        """Raise ValueError if a rule is false."""
        for program, message in self._programs:
            try:
                is_valid = program.evaluate(Activation(object_=value, old_object=None, request={}))
            except EvaluationError as error:
                # Without the types of the schema, other errors may be none in kube-apiserver.
                is_valid = not error.cause.startswith("no such key")
            if not is_valid:
                raise ValueError(message)


def _compile_rules(rules: JSON) -> Iterator[tuple[Program, str]]:
    for one in list_objects(rules):
        rule = as_text(one.get("rule"))
        # kube-apiserver escapes names of members with "__".
        if "oldSelf" not in rule and "__" not in rule:
            with suppress(ExpressionError):
                program = compile_condition(f"[object].all(self, {rule}\n)")
                yield program, as_text(one.get("message")) or f"failed rule: {rule}"


_PATTERN: Final = "x-pattern"
_KEYWORDS: Final[Any] = {_PATTERN: _Pattern, "x-kubernetes-validations": _Rules}
