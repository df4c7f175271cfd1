"""The JSON Schema of workloads, and the formats of texts that it names.

`make schemas` writes ``json_schema.json``: ``schemas/workload_rules.py`` derives it from the OpenAPI schemas of
kube-apiserver, with the rules about single members.

`FORMATS` has the formats of texts, each with the problem of a text that kube-apiserver refuses. Source:
pkg/util/validation of k8s.io/apimachinery v0.36.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from fleethook.model.formats.labels import (
    is_dns1123_label,
    is_dns1123_subdomain,
    label_key_problem,
    label_value_problem,
)
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSONObject
from fleethook.workload_schema.go_structs import Kind

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


MAX_MODE: Final = 0o777
"""The largest mode of a file."""


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
