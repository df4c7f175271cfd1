"""Semantic versions (k8s.io/apiserver/pkg/cel/library/semverlib.go, github.com/blang/semver/v4)."""

import re
from typing import Any, Final, TypeAlias

from fleethook.cel.values.values import MAX_INT, Foreign, Function, can_parse, quote_text

_NUMBER: Final = r"(0|[1-9][0-9]{0,19})"
_NAME: Final = "[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_NAME}(?:\.{_NAME})*))?(?:\+{_NAME}(?:\.{_NAME})*)?", re.ASCII
)
_MAX_NUMBER: Final = 2**64 - 1

# A number sorts before a text, and a release after all its pre-releases (semver.org, 11).
_Key: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


class Semver(Foreign):
    """A version; comparisons ignore its build metadata."""

    __slots__ = ("key", "text")
    kind = "kubernetes.Semver"

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.key: Final = _build_sort_key(text.partition("+")[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _parse(text: str, *, normalize: bool = False) -> Semver:
    """Check a version and return it."""
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
    return Semver(text)


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


def _build_sort_key(text: str) -> _Key:
    core, _, pre = text.partition("-")
    parts = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pre.split(".") if pre)
    return tuple(int(number) for number in core.split(".")), not pre, parts


def _compare(one: Semver, other: Semver) -> int:
    return (one.key > other.key) - (one.key < other.key)


def _get_number(position: int) -> Any:
    def get(version: Semver) -> int:
        # Go converts the unsigned number to a signed one.
        number = version.key[0][position]
        return number if number <= MAX_INT else number - 2**64

    return get


def _parse_normalized(text: str, normalize: bool) -> Semver:  # noqa: FBT001 - the argument of an expression
    return _parse(text, normalize=normalize)


_S: Final = Semver.kind
SEMVER_FUNCTIONS: Final = (
    Function("semver", ("string",), _parse),
    Function("semver", ("string", "bool"), _parse_normalized),
    Function("isSemver", ("string",), lambda text: can_parse(_parse, text)),
    Function(
        "isSemver", ("string", "bool"), lambda text, normal: can_parse(lambda one: _parse(one, normalize=normal), text)
    ),
    Function("major", (_S,), _get_number(0)),
    Function("minor", (_S,), _get_number(1)),
    Function("patch", (_S,), _get_number(2)),
    Function("isGreaterThan", (_S, _S), lambda one, other: _compare(one, other) > 0),
    Function("isLessThan", (_S, _S), lambda one, other: _compare(one, other) < 0),
    Function("compareTo", (_S, _S), _compare),
)
