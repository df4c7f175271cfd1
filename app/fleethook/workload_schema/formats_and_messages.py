"""The formats of texts in a workload or a custom resource, and the messages of findings about its values.

`FORMATS` has the formats that the JSON Schema of workloads names, each with the problem of a text that kube-apiserver
refuses. Source: pkg/util/validation of k8s.io/apimachinery v0.36.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from fleethook.model.formats.names_and_labels import (
    is_dns1123_label,
    is_dns1123_subdomain,
    label_key_problem,
    label_value_problem,
)
from fleethook.model.formats.quantity import Quantity
from fleethook.model.formats.text import nearest
from fleethook.model.json import JSON, JSONObject
from fleethook.workload_schema.go_structs import load_structs, struct_name
from fleethook.workload_schema.pool_value_marks import as_sample

_Check = Callable[[str], str | None]

_LABEL: Final = "lower case letters, digits and '-', with a letter or digit at its ends, 63 characters at most"
_SUBDOMAIN: Final = "lower case letters, digits, '-' and '.', with a letter or digit at its ends"
_MAX_PORT_NAME: Final = 15
_CONFIG_MAP_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_MAX_KEY: Final = 253
_SEARCH_PART: Final = r"_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_SYSCTL_PART: Final = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_SYSCTL_SAMPLE: Final = "net.core.somaxconn"


def _match(pattern: str, problem: str, *, longest: int | None = None) -> _Check:
    """Return the check of a text that has to match a pattern."""
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: None if (not longest or len(text) <= longest) and compiled.fullmatch(text) else problem


# The templates of a fleet have few different quantities. A text has at most 1.5 MB, and long ones are rare.
@lru_cache(maxsize=1024)
def _quantity_problem(text: str) -> str | None:
    try:
        Quantity.parse(text.strip())
    except ValueError as error:
        return str(error)
    return None


def _label_problem(text: str) -> str | None:
    return None if is_dns1123_label(text) else f"must consist of {_LABEL}"


def _subdomain_problem(text: str) -> str | None:
    return None if is_dns1123_subdomain(text) else f"must consist of {_SUBDOMAIN}"


def _config_map_key_problem(text: str) -> str | None:
    if len(text) > _MAX_KEY or not _CONFIG_MAP_KEY.fullmatch(text) or text == "." or text.startswith(".."):
        return "must have 1 to 253 letters, digits, '-', '_' or '.', and must not start with '..'"
    return None


def _ip_problem(text: str) -> str | None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # kube-apiserver accepts leading zeros, and a few other old forms.
        return None if all(part.isdecimal() for part in text.split(".")) else "must be an IP address"
    return None


def _descending_path_problem(text: str) -> str | None:
    if text.startswith("/"):
        return "must be a relative path: remove the first '/'"
    return _steps_problem(text)


def _file_path_problem(text: str) -> str | None:
    if text.startswith("..") and not text.startswith("../"):
        return "must not start with '..'"
    return _descending_path_problem(text)


def _steps_problem(text: str) -> str | None:
    return "must not contain '..'" if ".." in text.split("/") else None


def _absolute_path_problem(text: str) -> str | None:
    return None if text.startswith("/") else "must be an absolute path: start it with '/'"


QUANTITY: Final = "quantity"
_PORT_NAME: Final = _match(
    r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    "must have 1 to 15 lower case letters, digits and single '-' in between, with a letter",
    longest=_MAX_PORT_NAME,
)

FORMATS: Final[Mapping[str, _Check]] = {
    QUANTITY: _quantity_problem,
    "absolute-path": _absolute_path_problem,
    "config-map-key": _config_map_key_problem,
    "descending-path": _descending_path_problem,
    "driver-name": lambda text: _subdomain_problem(text.lower()),
    "environment-name": _match(r"[ -<>-~]+", "must consist of printable ASCII characters other than '='"),
    "file-path": _file_path_problem,
    "header": _match(r"[-A-Za-z0-9]+", "must consist of letters, digits and '-'"),
    "ip": _ip_problem,
    "label": _label_problem,
    "label-value": label_value_problem,
    "optional-label": lambda text: _label_problem(text) if text else None,
    "optional-subdomain": lambda text: _subdomain_problem(text) if text else None,
    "percent": _match(r"[0-9]+%", "must be a whole number, or a percentage such as '10%'"),
    "port": _PORT_NAME,
    "port-name": _PORT_NAME,
    "qualified-name": label_key_problem,
    # A single dot is the root, and a dot at the end is allowed.
    "search-domain": _match(
        rf"\.|{_SEARCH_PART}(?:\.{_SEARCH_PART})*\.?",
        "must be a domain of lower case letters, digits, '-', '_' and '.'",
    ),
    "steps": _steps_problem,
    "subdomain": _subdomain_problem,
    "sysctl": _match(
        rf"(?:{_SYSCTL_PART}[./])*{_SYSCTL_PART}", f"must be a name such as {_SYSCTL_SAMPLE}", longest=_MAX_KEY
    ),
}
"""The problem of a text by the name of its format, None if the text is valid."""

CUSTOM_RESOURCE_FORMATS: Final = ("date-time", "ipv4", "ipv6")
"""The formats of custom resources that are checked, by jsonschema. It has other rules for the remaining formats."""


MAX_MODE: Final = 0o777
"""The largest mode of a file."""


Problem = Literal["unknown", "type", "missing", "value", "duplicate"]


class WorkloadFinding(NamedTuple):
    """A part of a workload that kube-apiserver would refuse or drop."""

    pointer: str
    """The JSON pointer of the member, even if it is missing."""
    problem: Problem
    """``unknown``: the field does not exist and kube-apiserver drops it, unless it is newer than our schema.

    ``type``: the value has a wrong JSON type. ``missing``: a required member is absent. ``value``: the type is right
    and the value is not. ``duplicate``: an earlier element has the same identity.
    """
    message: str
    """The mistake and its correction, without the pointer."""

    def __str__(self) -> str:
        return f"{self.pointer or 'the workload'}: {self.message}"


class Violation(NamedTuple):
    """A finding with a place inside the struct that a rule checks."""

    tokens: tuple[str | int, ...]
    """The path of the member in the struct, even if it is missing."""
    message: str
    problem: Problem = "value"


Rule = Callable[[JSONObject], Iterator[Violation]]
"""Yields the violations of a struct."""


# A less similar name is often a field of another struct.
_MIN_SIMILARITY: Final = 0.75
_MAX_NAMES: Final = 12
_MAX_VALUE: Final = 60

_TYPE_NAMES: Final = {
    "object": "an object", "array": "a list", "string": "a string",
    "integer": "an integer", "number": "a number", "boolean": "true or false",
}  # fmt: skip


def describe_unknown(name: str, struct: str, parents: Sequence[str]) -> str:
    """Describe an unknown field of a struct, and suggest the field that was probably meant.

    Args:
        name: The unknown field.
        struct: The struct with the field, such as ``core.v1.Container``.
        parents: The structs around ``struct``, the nearest first.
    """
    known = load_structs()[struct]
    message = f"{_get_kind(struct)} has no field {_shorten(name)}"
    if close := nearest(name, known, similarity=_MIN_SIMILARITY):
        return f"{message}: did you mean {json.dumps(close)}?"
    for place, other in _list_neighbours(struct, parents):
        if name in load_structs()[other]:
            return f"{message}: it is a field of {place}"
    if len(known) <= _MAX_NAMES:
        return f"{message}: it has {', '.join(known)}"
    return f"{message}: correct the name or remove it"


def _list_neighbours(struct: str, parents: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the structs around and inside a struct, each with its description."""
    for parent in parents:
        yield _get_kind(parent), parent
    for name, field in load_structs()[struct].items():
        inner = struct_name(field.type)
        if inner is not None:
            yield f"{name} ({_get_kind(inner)})", inner


def _get_kind(struct: str) -> str:
    return struct.rpartition(".")[2]


def describe_type(value: JSON, types: Sequence[str], members: Mapping[str, JSON], required: Sequence[str]) -> str:
    """Describe a value with a wrong type.

    Args:
        value: The value.
        types: The allowed JSON types.
        members: The schemas of the members, if an object with known members is allowed.
        required: The names of the required members.
    """
    expected = " or ".join(_TYPE_NAMES[type_] for type_ in sorted(types, reverse=True)) or "a value"
    if types == ["object"] and members:
        names = [*required, *(name for name in members if name not in required)]
        shown = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
        expected = f"an object ({shown})"
    return f"must be {expected}, not {shown_value(value)}{_advise_on_quotes(value, types)}"


def _advise_on_quotes(value: JSON, types: Sequence[str]) -> str:
    if types == ["string"] and isinstance(value, bool | int | float):
        return ": quote it"
    is_integer = "integer" in types and isinstance(value, str) and value.isdecimal()
    is_boolean = types == ["boolean"] and value in ("true", "false")
    return ": remove the quotes" if is_integer or is_boolean else ""


def describe_enum(value: JSON, options: Sequence[str]) -> str:
    """Describe a value that is none of the allowed ones."""
    options = [option for option in options if option]
    close = nearest(value, options, similarity=_MIN_SIMILARITY) if isinstance(value, str) else None
    hint = f"did you mean {close}?" if close else ""
    if len(options) > _MAX_NAMES:
        return f"{shown_value(value)} is not a value that Kubernetes knows{': ' if hint else ''}{hint}"
    return f"must be one of {', '.join(options)}, not {shown_value(value)}{': ' if hint else ''}{hint}"


def shown_value(value: JSON) -> str:
    """Return a value with the name of its type, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return f"the {'string' if isinstance(value, str) else 'number'} {_shorten(value)}"


def _shorten(value: str | float) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


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


VALUE_MESSAGES: Final[Mapping[str, Callable[[JSON, JSONObject], str]]] = {
    "enum": lambda value, details: describe_enum(value, details["options"]),
    "format": lambda value, details: _describe_format(value, details["format"]),
    "minimum": lambda value, details: f"must be {details['limit']} or more, not {value}",
    "minLength": lambda _value, _details: "must not be empty",
    "maximum": lambda value, details: _describe_maximum(value, details["limit"]),
}
"""The message about a value by the keyword of JSON Schema that refuses it."""
