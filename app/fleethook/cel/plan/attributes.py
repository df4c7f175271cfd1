"""The parts of a planned expression: constants, code, and attributes such as ``object.spec.hosts[0]``.

cel-go (interpreter/attributes.go) charges 1 for the attribute and 1 for each member that it looks up. For the branches
of ``c ? a : b`` it charges the members only.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from fleethook.cel.plan.calls_literals_loops import ABSENT, COST, Evaluate, Frame, compile_conditional
from fleethook.cel.values.values_and_overloads import (
    NONE,
    CelError,
    Optional,
    Uint,
    get_kind,
    is_out_of_range,
    make_range_error,
)

_MISSING: Final = object()


class Member(NamedTuple):
    """One step from a value to one of its members."""

    key: Any
    """A constant key."""
    computed: Evaluate | None = None
    """Computes a key that is not constant; None for a constant key."""
    optional: bool = False
    """Whether ``?.`` or ``[?]`` selects the member."""
    tested: bool = False
    """Whether ``has()`` tests only the member's presence."""


class Attribute(NamedTuple):
    """A value and the path of members that starts there."""

    base: Evaluate
    members: tuple[Member, ...] = ()


def compile_variable(slot: int, name: str) -> Evaluate:
    """Return code that reads a variable of the request; an absent variable is an error."""
    missing = CelError(f"no such attribute(s): {name}")

    def read(frame: Frame) -> Any:
        value = frame[slot]
        return missing if value is ABSENT else value

    return read


def compile_local(slot: int) -> Evaluate:
    """Return code that reads a variable of a comprehension."""
    return lambda frame: frame[slot]


def compile_resolver(attribute: Attribute) -> Evaluate:
    """Return code that reads an attribute and charges only for its members."""
    base, members = attribute
    if not members:
        return base
    if all(isinstance(member.key, str) and not member.optional and not member.tested for member in members):
        return _compile_plain_resolver(base, tuple(member.key for member in members))

    return lambda frame: _resolve(frame, base(frame), members)


def _compile_plain_resolver(base: Evaluate, keys: Sequence[str]) -> Evaluate:
    rest = tuple(Member(key) for key in keys)

    def resolve(frame: Frame) -> Any:
        value = base(frame)
        for position, key in enumerate(keys):
            if type(value) is not dict:
                return _resolve(frame, value, rest[position:])
            frame[COST] += 1
            value = value.get(key, _MISSING)
            if value is _MISSING:
                return CelError(f"no such key: {key}")
        return make_range_error(value) if is_out_of_range(value) else value

    return resolve


def _resolve(frame: Frame, value: Any, members: Sequence[Member]) -> Any:
    kind = type(value)
    if kind is CelError or value is NONE:
        return value
    return _walk(frame, value.value if kind is Optional else value, members, optional=kind is Optional)


def _walk(frame: Frame, value: Any, members: Sequence[Member], *, optional: bool) -> Any:
    for member in members:
        optional = optional or member.optional
        key = member.key
        if member.computed is not None:
            key = member.computed(frame)
            if type(key) is CelError:
                frame[COST] += 1
                return key
        found = _find(value, key)
        if member.tested:
            frame[COST] += 1
            value = found if type(found) is CelError else found is not _MISSING
            if type(value) is CelError:
                return value
        elif found is _MISSING and optional:
            return NONE
        else:
            frame[COST] += 1
            value = _make_missing_error(value, key) if found is _MISSING else found
            if type(value) is CelError:
                return value
    if is_out_of_range(value):
        return make_range_error(value)
    return Optional(value) if optional and not members[-1].tested else value


def _find(value: Any, key: Any) -> Any:
    """Return a member, _MISSING if it does not exist, or an error if no member can have such a key."""
    if isinstance(value, dict):
        if get_kind(type(key)) not in ("string", "int", "uint", "bool", "double"):
            return CelError(f"unsupported key type: {get_kind(type(key))}")
        return value.get(key, _MISSING)
    if isinstance(value, list):
        position = _index(key)
        if position is None:
            return CelError(f"unsupported index type '{get_kind(type(key))}' in list")
        return value[position] if 0 <= position < len(value) else _MISSING
    return _MISSING


def _index(key: Any) -> int | None:
    if type(key) is float and key.is_integer():
        return int(key)
    return int(key) if type(key) in (int, Uint) else None


def _make_missing_error(value: Any, key: Any) -> CelError:
    if isinstance(value, list):
        return CelError(f"index out of bounds: {key}")
    return CelError(f"no such key: {key}")


def compile_attribute(attribute: Attribute) -> Evaluate:
    """Return code that reads an attribute and charges for the attribute and its members."""
    resolve = compile_resolver(attribute)
    tested = bool(attribute.members) and attribute.members[-1].tested
    if tested:
        # Kubernetes turns off the charge for has() itself (cel-go's option PresenceTestHasCost).
        return resolve

    def read(frame: Frame) -> Any:
        value = resolve(frame)
        frame[COST] += 1
        return value

    return read


class Constant(NamedTuple):
    """A part with a constant value."""

    value: Any


class ConditionalAttribute(NamedTuple):
    """``condition ? yes : no``. Selecting a member of it selects the member of both branches."""

    condition: Evaluate
    yes: "Attribute | ConditionalAttribute"
    no: "Attribute | ConditionalAttribute"


Part: TypeAlias = Constant | Attribute | ConditionalAttribute | Evaluate


def compile_part(part: Part) -> Evaluate:
    """Return the code of a part, which charges the part's cost."""
    if isinstance(part, Constant):
        return compile_constant(part.value)
    if isinstance(part, Attribute):
        return compile_attribute(part)
    return _compile_part_resolver(part) if isinstance(part, ConditionalAttribute) else part


def _compile_part_resolver(part: "Attribute | ConditionalAttribute") -> Evaluate:
    """Return the code of an attribute, which charges for its members only."""
    if isinstance(part, Attribute):
        return compile_resolver(part)
    return compile_conditional(part.condition, _compile_part_resolver(part.yes), _compile_part_resolver(part.no))


def as_attribute(part: Part) -> "Attribute | ConditionalAttribute":
    """Return a part as an attribute without members, unless it is an attribute or a conditional."""
    return part if isinstance(part, Attribute | ConditionalAttribute) else Attribute(compile_part(part))


def append_member(part: Part, member: Member) -> "Attribute | ConditionalAttribute":
    """Return a part that selects one more member, in both branches of a conditional."""
    if isinstance(part, ConditionalAttribute):
        return part._replace(yes=append_member(part.yes, member), no=append_member(part.no, member))
    attribute = part if isinstance(part, Attribute) else Attribute(compile_part(part))
    return attribute._replace(members=(*attribute.members, member))


def build_member(part: Part, *, optional: bool) -> Member:
    """Return the member whose key is the value of ``part``; a constant key needs no code."""
    if isinstance(part, Constant):
        return Member(part.value, optional=optional)
    code = _compile_part_resolver(part) if isinstance(part, Attribute | ConditionalAttribute) else part
    return Member(None, computed=code, optional=optional)


def compile_constant(value: Any) -> Evaluate:
    """Return code that returns a constant and charges nothing."""
    return lambda _: value
