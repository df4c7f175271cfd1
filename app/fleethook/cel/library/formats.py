"""Named formats of strings (k8s.io/apiserver/pkg/cel/library/format.go, k8s.io/apimachinery/pkg/util/validation)."""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, ClassVar, Final

from fleethook.cel.library.network import find_parse_error
from fleethook.cel.values.values import NONE, Foreign, Function, Optional, can_parse
from fleethook.model.formats.labels import label_key_problems, label_value_problems


@dataclass(frozen=True)
class NamedFormat(Foreign):
    """A format of strings."""

    kind: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_UUID: Final = re.compile(r"(?i)[0-9A-F]{8}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{12}", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATETIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    re.ASCII,
)

_Validate = Callable[[str], Iterator[str]]


def _compile_name_format(pattern: str, *, longest: int, text: str, dotted: str = "") -> _Validate:
    """Return the validation of a name. A name that matches only ``dotted`` gets a different error."""
    form, other = re.compile(pattern), re.compile(dotted)

    def validate(value: str) -> Iterator[str]:
        if len(value.encode(errors="replace")) > longest:
            yield f"must be no more than {longest} characters"
        if dotted and not form.fullmatch(value) and other.fullmatch(value):
            yield "must not contain dots"
        elif not form.fullmatch(value):
            yield f"{text}, regex used for validation is '{pattern}')"

    return validate


def _allow_trailing_dash(validate: _Validate) -> _Validate:
    """Return the validation of a generateName: its trailing dash is followed by a generated suffix."""
    return lambda value: validate(f"{value[:-1]}a" if len(value) > 1 and value.endswith("-") else value)


def _require(accepts: Callable[[str], bool], problem: str) -> _Validate:
    def validate(value: str) -> Iterator[str]:
        if not accepts(value):
            yield problem

    return validate


def _is_base64(value: str) -> bool:
    return bool(value) and can_parse(partial(base64.b64decode, validate=True), value)


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and can_parse(date.fromisoformat, value)


def _is_datetime(value: str) -> bool:
    match = _DATETIME.fullmatch(value)
    return match is not None and _is_date(match[1])


_DNS_1123_LABEL: Final = _compile_name_format(
    _LABEL,
    longest=63,
    dotted=_SUBDOMAIN,
    text="a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc'",
)
_DNS_1123_SUBDOMAIN: Final = _compile_name_format(
    _SUBDOMAIN,
    longest=253,
    text="a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com'",
)
_DNS_1035_LABEL: Final = _compile_name_format(
    _DNS_1035,
    longest=63,
    text="a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123'",
)


_FORMATS: Final[dict[str, _Validate]] = {
    "dns1123Label": _DNS_1123_LABEL,
    "dns1123Subdomain": _DNS_1123_SUBDOMAIN,
    "dns1035Label": _DNS_1035_LABEL,
    "qualifiedName": label_key_problems,
    "dns1123LabelPrefix": _allow_trailing_dash(_DNS_1123_LABEL),
    "dns1123SubdomainPrefix": _allow_trailing_dash(_DNS_1123_SUBDOMAIN),
    "dns1035LabelPrefix": _allow_trailing_dash(_DNS_1035_LABEL),
    "labelValue": label_value_problems,
    "uri": lambda value: filter(None, (find_parse_error(value),)),
    "uuid": _require(lambda value: _UUID.fullmatch(value) is not None, "does not match the UUID format"),
    "byte": _require(_is_base64, "invalid base64"),
    "date": _require(_is_date, "invalid date"),
    "datetime": _require(_is_datetime, "invalid datetime"),
}


def _build_format(name: str) -> Callable[[], NamedFormat]:
    return lambda: NamedFormat(name)


def _validate(format_: NamedFormat, text: str) -> Optional:
    problems = list(_FORMATS[format_.name](text))
    return Optional(problems) if problems else NONE


# pkg/cel/library/format.go: MaxRegexSize, which determines the cost of a validation.
_REGEX_SIZES: Final = {
    **dict.fromkeys(("dns1123Label", "dns1035Label", "dns1123LabelPrefix", "dns1035LabelPrefix"), 30),
    **dict.fromkeys(("dns1123Subdomain", "dns1123SubdomainPrefix", "qualifiedName"), 60),
    "labelValue": 40,
    "uri": 1103,
    "uuid": 70,
    "byte": 84,
    **dict.fromkeys(("date", "datetime"), 71),
}


def get_regex_size(value: Any) -> int | None:
    """Return the size of a format's regular expression for Kubernetes' costs; None for other values."""
    return _REGEX_SIZES[value.name] if isinstance(value, NamedFormat) else None


_F: Final = NamedFormat.kind
FORMAT_FUNCTIONS: Final = (
    *(Function(f"format.{name}", (), _build_format(name)) for name in _FORMATS),
    Function("format.named", ("string",), lambda name: Optional(NamedFormat(name)) if name in _FORMATS else NONE),
    Function("validate", (_F, "string"), _validate),
)
