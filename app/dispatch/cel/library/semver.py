"""Semantic versions (k8s.io/apiserver/pkg/cel/library/semverlib.go, github.com/blang/semver/v4)."""

import re
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

from app.dispatch.cel.functions import Function
from app.dispatch.cel.library.parsing import can_parse
from app.dispatch.cel.library.quoting import quote_text
from app.dispatch.cel.protobuf_types import get_message_type

_SEMVER: Final = get_message_type("Semver")
_NUMBER: Final = r"(0|[1-9][0-9]{0,19})"
_NAME: Final = "[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_NAME}(?:\.{_NAME})*))?(?:\+{_NAME}(?:\.{_NAME})*)?", re.ASCII
)
_MAX_NUMBER: Final = 2**64 - 1

# A number sorts before a text, and a release after all its pre-releases (semver.org, 11).
_Key: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def _parse(text: str, *, normalize: bool = False) -> str:
    """Check a version and return it without its build metadata, which comparisons ignore."""
    if normalize:
        text = _normalize(text)
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{quote_text(text)} is not a semantic version")
    *numbers, pre = match.groups()
    if any(int(number) > _MAX_NUMBER for number in numbers):
        raise ValueError(f"{quote_text(text)} is not a semantic version: a number is too large")
    for part in (pre or "").split("."):
        if part.isdigit() and (len(part) > 20 or (len(part) > 1 and part.startswith("0"))):
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote_text(part)}")
    core = ".".join(numbers)
    return core if pre is None else f"{core}-{pre}"


def _normalize(text: str) -> str:
    """Remove ``v`` and leading zeros, and append missing numbers."""
    parts = [_strip_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _strip_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdigit() else f"0{stripped}"


def _build_sort_key(message: Any) -> _Key:
    core, _, pre = message.text.partition("-")
    parts = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pre.split(".") if pre)
    return tuple(int(number) for number in core.split(".")), not pre, parts


def _compare(one: Message, other: Message) -> int:
    left, right = _build_sort_key(one), _build_sort_key(other)
    return (left > right) - (left < right)


def _get_number(position: int) -> Any:
    return lambda version: _build_sort_key(version)[0][position]


_S: Final = "kubernetes.Semver"
FUNCTIONS: Final = (
    Function("semver", ("string",), _S, lambda text: _SEMVER(text=_parse(text)), member=False),
    Function(
        "semver",
        ("string", "bool"),
        _S,
        lambda text, normalize: _SEMVER(text=_parse(text, normalize=normalize)),
        member=False,
    ),
    Function("isSemver", ("string",), "bool", lambda text: can_parse(_parse, text), member=False),
    Function(
        "isSemver",
        ("string", "bool"),
        "bool",
        lambda text, normalize: can_parse(lambda given: _parse(given, normalize=normalize), text),
        member=False,
    ),
    Function("major", (_S,), "int", _get_number(0)),
    Function("minor", (_S,), "int", _get_number(1)),
    Function("patch", (_S,), "int", _get_number(2)),
    Function("isGreaterThan", (_S, _S), "bool", lambda one, other: _compare(one, other) > 0),
    Function("isLessThan", (_S, _S), "bool", lambda one, other: _compare(one, other) < 0),
    Function("compareTo", (_S, _S), "int", _compare),
)
