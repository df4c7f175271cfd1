"""Checks types and members of a value against a shape, with messages that suggest a correct value."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.unknown_fields import find_meant_fields, find_unknown_fields
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON

MAX_REPLICAS: Final = 2**31 - 1

Check = Callable[[JSON, str], Iterator[Finding]]
"""Yields the mistakes in a value, given its path."""


class Shape(NamedTuple):
    """An object with named members."""

    owner: str
    """The object in messages, such as "an environment variable"."""
    members: Mapping[str, Check]
    required: tuple[str, ...] = ()

    def check(self, value: JSON, field: str) -> Iterator[Finding]:
        """Yield wrong types, missing and unknown members. Null counts as absent, as in the Kubernetes API."""
        if not isinstance(value, dict):
            yield mistyped(field, "an object", value)
            return
        meant = find_meant_fields(value, self.members)
        for member in self.required:
            if _is_empty(value.get(member)) and member not in meant:
                yield Finding("required", f"{field}.{member}", "is required")
        for member, check in self.members.items():
            if not _is_empty(value.get(member)):
                yield from check(value[member], f"{field}.{member}")
        yield from find_unknown_fields(value, tuple(self.members), field=field, owner=self.owner)


def _is_empty(value: JSON) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def mistyped(field: str, expected: str, value: JSON) -> Finding:
    """Return the finding that a value has another type than ``expected``."""
    return Finding("invalid", field, f"must be {expected}, not {type_name(value)}")


def type_name(value: JSON) -> str:
    """Return the type of a JSON value in words."""
    names = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def quote_advice(name: JSON) -> str:
    """Return the end of a message about a name that YAML does not read as text, ``""`` for other values."""
    if isinstance(name, bool):
        words, sample = ("yes, on and true", "yes") if name else ("no, off and false", "no")
        return f': YAML reads {words} as {str(name).lower()}, so quote the name, as in "{sample}"'
    return f': quote it, as in "{name}"' if isinstance(name, int | float) else ""


def replicas_problem(value: JSON) -> str | None:
    """Return the problem of a number of replicas, None if it is valid."""
    if type(value) is int and 0 <= value <= MAX_REPLICAS:
        return None
    limit = f" to {MAX_REPLICAS}" if type(value) is int and value > 0 else ""
    hint = "; remove the quotes" if isinstance(value, str) and value.isdecimal() else ""
    return f"must be a whole number from 0{limit}, not {value!r}{hint}"


def text(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a finding if a value is not text. YAML reads unquoted numbers and words such as ``yes`` as other types."""
    if isinstance(value, str):
        return
    if value is None or isinstance(value, (dict, list)):
        yield mistyped(field, "text", value)
        return
    written = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    kind = "" if isinstance(value, bool) else "the number "
    member = field.rpartition(".")[2]
    quoted = f'"{written}"' if member.endswith("]") else f'{member}: "{written}"'
    yield Finding("invalid", field, f"must be text, not {kind}{written}: quote it, as in {quoted}")


def boolean(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a finding if a value is not true or false."""
    if not isinstance(value, bool):
        yield mistyped(field, "true or false", value)


def integer(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a finding if a value is not a whole number."""
    if type(value) is not int:
        yield mistyped(field, "a whole number", value)


def any_object(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a finding if a value is not an object. Kubernetes' schema checks its members."""
    if not isinstance(value, dict):
        yield mistyped(field, "an object", value)


def list_of(check: Check) -> Check:
    """Return the check of a list whose elements pass ``check``."""

    def elements(value: JSON, field: str) -> Iterator[Finding]:
        if not isinstance(value, list):
            yield mistyped(field, "a list", value)
        else:
            for number, element in enumerate(value):
                yield from check(element, f"{field}[{number}]")

    return elements


def map_of(check: Check) -> Check:
    """Return the check of an object whose members pass ``check``."""

    def members(value: JSON, field: str) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield mistyped(field, "an object", value)
        else:
            for name, inner in value.items():
                yield from check(inner, f"{field}.{name}")

    return members


def quantity(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a finding if a value is neither a resource quantity nor null, which unsets one."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        yield mistyped(field, "a quantity such as 500m or 128Mi", value)
        return
    try:
        Quantity.parse(str(value))
    except ValueError as error:
        yield Finding("invalid", field, str(error))
