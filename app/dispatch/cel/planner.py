"""Checked expressions as code: each node becomes a function of a frame (cel-go: interpreter/planner.go).

Parts that are constant are evaluated here, as cel-go does with OptOptimize: they cost nothing later.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from app.dispatch.cel.arithmetic import OPERATORS, negate
from app.dispatch.cel.attributes import Attribute, Member, attribute_code, extend, local, resolver, variable
from app.dispatch.cel.calls import (
    call_code,
    check_code,
    conditional_code,
    equality_code,
    logic_code,
    member_of_constants_code,
    not_strictly_false_code,
    optional_or_code,
)
from app.dispatch.cel.checked_expr import Node, Tree, set_member
from app.dispatch.cel.comprehensions import Loop, accumulator, loop_code
from app.dispatch.cel.costs import cost_of_call
from app.dispatch.cel.equality import contains
from app.dispatch.cel.evaluation import MAX_COST
from app.dispatch.cel.frame import FIRST_LOCAL, FIRST_VARIABLE, VARIABLES, Evaluate, Frame
from app.dispatch.cel.functions import dispatches
from app.dispatch.cel.library import FUNCTIONS
from app.dispatch.cel.literals import Entry, list_code, map_code
from app.dispatch.cel.values import NO_SUCH_OVERLOAD, CelError, CelType, Uint


class Constant(NamedTuple):
    """A part whose value is known."""

    value: Any


class Choice(NamedTuple):
    """``condition ? yes : no`` with members, which are those of both branches."""

    condition: Evaluate
    yes: "Attribute | Choice"
    no: "Attribute | Choice"


Part: TypeAlias = Constant | Attribute | Choice | Evaluate


class Plan(NamedTuple):
    """An expression as code, and the size of its frame."""

    code: Evaluate
    slots: int
    nodes: int


def _negated(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(NO_SUCH_OVERLOAD)
    return not value


_CODES: Final[dict[str, Any]] = {
    **dispatches(FUNCTIONS),
    **OPERATORS,
    "-_": negate,
    "!_": _negated,
    "@in": lambda value, values: contains(values, value),
}
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)
_NUMBER_OF_ID: Final = 2
_PRIMITIVES: Final = frozenset({bool, int, Uint, float, str, type(None)})
_MATCHING: Final = frozenset({"matches", "find", "findAll"})
_OPTIONAL_MEMBERS: Final = frozenset({"_?._", "_[?_]"})


class _Scope(NamedTuple):
    """The variables of loops around a node."""

    locals: Mapping[str, Evaluate]


class Planner:
    """Turns one checked expression to code."""

    def __init__(self, checked: Tree) -> None:
        """Read the references of the check."""
        self._names: Final = {entry.key: entry.value.name for entry in checked.references}
        self._overloads: Final = {entry.key: tuple(entry.value.overload_id) for entry in checked.references}
        self._root: Final = checked.expr
        self._slots = FIRST_LOCAL
        self._nodes = 0

    def plan(self) -> Plan:
        """Return the code."""
        code = code_of(self._part(self._root, _Scope({})))
        return Plan(code, self._slots, self._nodes)

    def _slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    def _part(self, node: Node, scope: _Scope) -> Part:
        self._nodes += 1
        plan = self._PLANS[set_member(node, after=_NUMBER_OF_ID)]
        part: Part = plan(self, node, scope)
        return part

    def _code(self, node: Node, scope: _Scope) -> Evaluate:
        return code_of(self._part(node, scope))

    def _const(self, node: Node, _scope: _Scope) -> Part:
        return Constant(_constant(node.const))

    def _ident(self, node: Node, scope: _Scope) -> Part:
        return self._variable(node.ident.name, self._names.get(node.id, ""), scope)

    def _variable(self, name: str, reference: str, scope: _Scope) -> Part:
        if name in scope.locals:
            return Attribute(scope.locals[name])
        name = (reference or name).lstrip(".")
        if name in VARIABLES:
            return Attribute(variable(FIRST_VARIABLE + VARIABLES.index(name), name))
        return Constant(CelType(name))

    def _select(self, node: Node, scope: _Scope) -> Part:
        reference = self._names.get(node.id, "")
        if reference:
            return self._variable(reference, reference, scope)
        select = node.select
        return _with(self._part(select.operand, scope), Member(select.field, tested=select.test_only))

    def _list(self, node: Node, scope: _Scope) -> Part:
        literal = node.list
        parts = [self._part(element, scope) for element in literal.elements]
        constants = [part.value for part in parts if isinstance(part, Constant)]
        if len(constants) == len(parts):
            return Constant(constants)
        return list_code([code_of(part) for part in parts], frozenset(literal.optional_indices))

    def _struct(self, node: Node, scope: _Scope) -> Part:
        literal = node.struct
        if literal.message_name:
            return _constant_error(f"unsupported message: {literal.message_name}")
        parts = [
            (self._part(entry.map_key, scope), self._part(entry.value, scope), entry.optional_entry)
            for entry in literal.entries
        ]
        entries = [Entry(code_of(key), code_of(value), optional) for key, value, optional in parts]
        code = map_code(entries)
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in parts):
            made = _fold(code)
            return code if type(made) is CelError else Constant(made)
        return code

    def _loop(self, node: Node, scope: _Scope) -> Part:
        loop = node.comprehension
        collected, element = self._slot(), self._slot()
        second = self._slot() if loop.iter_var2 else 0
        result = accumulator(collected, self._code(loop.accu_init, scope))
        after = _Scope({**scope.locals, loop.accu_var: result})
        inside = {**scope.locals, loop.iter_var: local(element)}
        if second:
            inside[loop.iter_var2] = local(second)
        within = _Scope({**inside, loop.accu_var: result})
        return loop_code(
            Loop(
                range=self._code(loop.iter_range, scope),
                condition=self._code(loop.loop_condition, within),
                step=self._code(loop.loop_step, within),
                result=self._code(loop.result, after),
                accumulator=collected,
                element=element,
                second=second,
            )
        )

    def _call(self, node: Node, scope: _Scope) -> Part:
        function = node.call.function
        arguments = [*([node.call.target] if node.call.HasField("target") else []), *node.call.args]
        parts = [self._part(argument, scope) for argument in arguments]
        if function in ("_[_]", *_OPTIONAL_MEMBERS):
            return _with(parts[0], _member(parts[1], optional=function in _OPTIONAL_MEMBERS))
        if function == "_?_:_":
            return Choice(code_of(parts[0]), _branch(parts[1]), _branch(parts[2]))
        return _operation(function, parts) or self._function(function, parts, self._overloads.get(node.id, ()))

    def _function(self, function: str, parts: Sequence[Part], overloads: Sequence[str]) -> Part:
        if function == "@in" and len(overloads) == 1 and overloads[0] == "in_list":
            member = _member_of_constants(parts)
            if member is not None:
                return member
        codes = [code_of(part) for part in parts]
        cost = cost_of_call(function, overloads)
        if function == "check":
            return check_code(_CODES[function], codes, cost)
        # cel-go compiles a constant pattern, and plans the call as one of many arguments then.
        compiled = function in _MATCHING and isinstance(parts[1], Constant)
        code = call_code(_CODES[function], codes, cost, charges_errors=not compiled)
        if function in _CONVERSIONS and isinstance(parts[0], Constant):
            value = _fold(code)
            return _free(value) if type(value) is CelError else Constant(value)
        return code

    _PLANS: Final = {
        "const": _const,
        "ident": _ident,
        "select": _select,
        "call": _call,
        "list": _list,
        "struct": _struct,
        "comprehension": _loop,
    }


def _operation(function: str, parts: Sequence[Part]) -> Part | None:
    codes = [code_of(part) for part in parts]
    match function:
        case "_&&_":
            return logic_code(*codes, decisive=False)
        case "_||_":
            return logic_code(*codes, decisive=True)
        case "_==_" | "_!=_":
            return equality_code(*codes, negated=function == "_!=_")
        case "@not_strictly_false" | "__not_strictly_false__":
            return not_strictly_false_code(*codes)
        case "or" | "orValue":
            return optional_or_code(*codes, unwrapped=function == "orValue")
    return None


def code_of(part: Part) -> Evaluate:
    """Return the code of a part, with all that it costs."""
    if isinstance(part, Constant):
        return _free(part.value)
    if isinstance(part, Attribute):
        return attribute_code(part)
    return _resolver_of(part) if isinstance(part, Choice) else part


def _resolver_of(part: "Attribute | Choice") -> Evaluate:
    """Return the code of an attribute without the cost of the attribute itself."""
    if isinstance(part, Attribute):
        return resolver(part)
    return conditional_code(part.condition, _resolver_of(part.yes), _resolver_of(part.no))


def _branch(part: Part) -> "Attribute | Choice":
    return part if isinstance(part, Attribute | Choice) else Attribute(code_of(part))


def _with(part: Part, member: Member) -> "Attribute | Choice":
    if isinstance(part, Choice):
        return part._replace(yes=_with(part.yes, member), no=_with(part.no, member))
    return extend(part if isinstance(part, Attribute) else Attribute(code_of(part)), member)


def _member(part: Part, *, optional: bool) -> Member:
    if isinstance(part, Constant):
        return Member(part.value, optional=optional)
    code = _resolver_of(part) if isinstance(part, Attribute | Choice) else part
    return Member(None, computed=code, optional=optional)


def _member_of_constants(parts: Sequence[Part]) -> Part | None:
    value, values = parts
    if not isinstance(values, Constant):
        return None
    if not values.value:
        return Constant(value=False)
    if not all(type(one) in _PRIMITIVES for one in values.value):
        return None
    return member_of_constants_code(code_of(value), values.value)


def _free(value: Any) -> Evaluate:
    return lambda _: value


def _constant_error(text: str) -> Evaluate:
    return _free(CelError(text))


def _fold(code: Evaluate) -> Any:
    """Return the value of code that reads no variable."""
    frame: Frame = [0, MAX_COST]
    return code(frame)


def _constant(const: Node) -> Any:
    kind = set_member(const)
    if kind in ("", "null_value"):
        return None
    value = getattr(const, kind)
    return Uint(value) if kind == "uint64_value" else value
