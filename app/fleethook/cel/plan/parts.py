"""The parts of a planned expression: constants, attributes, conditionals, and code."""

from typing import Any, NamedTuple, TypeAlias

from fleethook.cel.plan.attributes import Attribute, Member, compile_attribute, compile_resolver, extend
from fleethook.cel.plan.calls import compile_conditional
from fleethook.cel.plan.frame import Evaluate


class Constant(NamedTuple):
    """A part with a constant value."""

    value: Any


class Choice(NamedTuple):
    """``condition ? yes : no``. Selecting a member of it selects the member of both branches."""

    condition: Evaluate
    yes: "Attribute | Choice"
    no: "Attribute | Choice"


Part: TypeAlias = Constant | Attribute | Choice | Evaluate


def compile_part(part: Part) -> Evaluate:
    """Return the code of a part, which charges the part's cost."""
    if isinstance(part, Constant):
        return compile_constant(part.value)
    if isinstance(part, Attribute):
        return compile_attribute(part)
    return _compile_part_resolver(part) if isinstance(part, Choice) else part


def _compile_part_resolver(part: "Attribute | Choice") -> Evaluate:
    """Return the code of an attribute, which charges for its members only."""
    if isinstance(part, Attribute):
        return compile_resolver(part)
    return compile_conditional(part.condition, _compile_part_resolver(part.yes), _compile_part_resolver(part.no))


def as_attribute(part: Part) -> "Attribute | Choice":
    """Return a part as an attribute without members, unless it is an attribute or a conditional."""
    return part if isinstance(part, Attribute | Choice) else Attribute(compile_part(part))


def append_member(part: Part, member: Member) -> "Attribute | Choice":
    """Return a part that selects one more member, in both branches of a conditional."""
    if isinstance(part, Choice):
        return part._replace(yes=append_member(part.yes, member), no=append_member(part.no, member))
    return extend(part if isinstance(part, Attribute) else Attribute(compile_part(part)), member)


def build_member(part: Part, *, optional: bool) -> Member:
    """Return the member whose key is the value of ``part``; a constant key needs no code."""
    if isinstance(part, Constant):
        return Member(part.value, optional=optional)
    code = _compile_part_resolver(part) if isinstance(part, Attribute | Choice) else part
    return Member(None, computed=code, optional=optional)


def compile_constant(value: Any) -> Evaluate:
    """Return code that returns a constant and charges nothing."""
    return lambda _: value
