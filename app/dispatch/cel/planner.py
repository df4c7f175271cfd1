"""Plans checked expressions: each node becomes a function of a frame (cel-go: interpreter/planner.go).

The planner evaluates constant parts, as cel-go does with OptOptimize. They cost nothing at run time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.dispatch.cel.arithmetic import OPERATORS, negate
from app.dispatch.cel.attributes import Attribute, Member, compile_local, compile_variable
from app.dispatch.cel.calls import (
    compile_call,
    compile_check,
    compile_equality,
    compile_logic,
    compile_membership,
    compile_not_strictly_false,
    compile_optional_or,
)
from app.dispatch.cel.checked_expr import Node, Tree, find_set_member
from app.dispatch.cel.comprehensions import Loop, compile_accumulator, compile_loop
from app.dispatch.cel.costs import find_call_cost
from app.dispatch.cel.equality import contains
from app.dispatch.cel.evaluation import MAX_COST
from app.dispatch.cel.frame import FIRST_LOCAL, FIRST_VARIABLE, VARIABLES, Evaluate, Frame
from app.dispatch.cel.functions import build_resolvers
from app.dispatch.cel.library import FUNCTIONS
from app.dispatch.cel.literals import Entry, compile_list, compile_map
from app.dispatch.cel.parts import (
    Choice,
    Constant,
    Part,
    append_member,
    as_attribute,
    build_member,
    compile_constant,
    compile_part,
)
from app.dispatch.cel.values import NO_SUCH_OVERLOAD, CelError, CelType, Uint


class Plan(NamedTuple):
    """The code of an expression, the size of its frame, and the number of its nodes."""

    code: Evaluate
    slots: int
    nodes: int


def _negate_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(NO_SUCH_OVERLOAD)
    return not value


_CODES: Final[dict[str, Any]] = {
    **build_resolvers(FUNCTIONS),
    **OPERATORS,
    "-_": negate,
    "!_": _negate_bool,
    "@in": lambda value, values: contains(values, value),
}
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)
_ID_FIELD_NUMBER: Final = 2
_PRIMITIVES: Final = frozenset({bool, int, Uint, float, str, type(None)})
_REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
_OPTIONAL_MEMBERS: Final = frozenset({"_?._", "_[?_]"})


class _Scope(NamedTuple):
    """The variables of the comprehensions around a node."""

    locals: Mapping[str, Evaluate]


class Planner:
    """Turns one checked expression into code."""

    def __init__(self, checked: Tree) -> None:
        """Read the references that the type checker resolved."""
        self._names: Final = {entry.key: entry.value.name for entry in checked.references}
        self._overloads: Final = {entry.key: tuple(entry.value.overload_id) for entry in checked.references}
        self._root: Final = checked.expr
        self._slots = FIRST_LOCAL
        self._nodes = 0

    def plan(self) -> Plan:
        """Return the plan of the expression."""
        code = compile_part(self._plan_node(self._root, _Scope({})))
        return Plan(code, self._slots, self._nodes)

    def _allocate_slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    def _plan_node(self, node: Node, scope: _Scope) -> Part:
        self._nodes += 1
        plan = self._PLANS[find_set_member(node, after=_ID_FIELD_NUMBER)]
        part: Part = plan(self, node, scope)
        return part

    def _compile_node(self, node: Node, scope: _Scope) -> Evaluate:
        return compile_part(self._plan_node(node, scope))

    def _plan_const(self, node: Node, _scope: _Scope) -> Part:
        return Constant(_read_constant(node.const))

    def _plan_ident(self, node: Node, scope: _Scope) -> Part:
        return self._plan_variable(node.ident.name, self._names.get(node.id, ""), scope)

    def _plan_variable(self, name: str, reference: str, scope: _Scope) -> Part:
        if name in scope.locals:
            return Attribute(scope.locals[name])
        name = (reference or name).lstrip(".")
        if name in VARIABLES:
            return Attribute(compile_variable(FIRST_VARIABLE + VARIABLES.index(name), name))
        return Constant(CelType(name))

    def _plan_select(self, node: Node, scope: _Scope) -> Part:
        reference = self._names.get(node.id, "")
        if reference:
            return self._plan_variable(reference, reference, scope)
        select = node.select
        return append_member(self._plan_node(select.operand, scope), Member(select.field, tested=select.test_only))

    def _plan_list(self, node: Node, scope: _Scope) -> Part:
        literal = node.list
        parts = [self._plan_node(element, scope) for element in literal.elements]
        constants = [part.value for part in parts if isinstance(part, Constant)]
        if len(constants) == len(parts):
            return Constant(constants)
        return compile_list([compile_part(part) for part in parts], frozenset(literal.optional_indices))

    def _plan_struct(self, node: Node, scope: _Scope) -> Part:
        literal = node.struct
        if literal.message_name:
            return _compile_error(f"unsupported message: {literal.message_name}")
        parts = [
            (self._plan_node(entry.map_key, scope), self._plan_node(entry.value, scope), entry.optional_entry)
            for entry in literal.entries
        ]
        entries = [Entry(compile_part(key), compile_part(value), optional) for key, value, optional in parts]
        code = compile_map(entries)
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in parts):
            value = _fold(code)
            return code if type(value) is CelError else Constant(value)
        return code

    def _plan_loop(self, node: Node, scope: _Scope) -> Part:
        loop = node.comprehension
        collected, element = self._allocate_slot(), self._allocate_slot()
        second = self._allocate_slot() if loop.iter_var2 else 0
        result = compile_accumulator(collected, self._compile_node(loop.accu_init, scope))
        after = _Scope({**scope.locals, loop.accu_var: result})
        inside = {**scope.locals, loop.iter_var: compile_local(element)}
        if second:
            inside[loop.iter_var2] = compile_local(second)
        within = _Scope({**inside, loop.accu_var: result})
        return compile_loop(
            Loop(
                range=self._compile_node(loop.iter_range, scope),
                condition=self._compile_node(loop.loop_condition, within),
                step=self._compile_node(loop.loop_step, within),
                result=self._compile_node(loop.result, after),
                accumulator=collected,
                element=element,
                second=second,
            )
        )

    def _plan_call(self, node: Node, scope: _Scope) -> Part:
        function = node.call.function
        arguments = [*([node.call.target] if node.call.HasField("target") else []), *node.call.args]
        parts = [self._plan_node(argument, scope) for argument in arguments]
        if function in ("_[_]", *_OPTIONAL_MEMBERS):
            return append_member(parts[0], build_member(parts[1], optional=function in _OPTIONAL_MEMBERS))
        if function == "_?_:_":
            return Choice(compile_part(parts[0]), as_attribute(parts[1]), as_attribute(parts[2]))
        return _compile_operator(function, parts) or self._plan_function(
            function, parts, self._overloads.get(node.id, ())
        )

    def _plan_function(self, function: str, parts: Sequence[Part], overloads: Sequence[str]) -> Part:
        if function == "@in" and len(overloads) == 1 and overloads[0] == "in_list":
            member = _compile_membership_of_constants(parts)
            if member is not None:
                return member
        codes = [compile_part(part) for part in parts]
        cost = find_call_cost(function, overloads)
        if function == "check":
            return compile_check(_CODES[function], codes, cost)
        # cel-go compiles constant patterns and then plans the call like one with more than two arguments.
        compiled = function in _REGEX_FUNCTIONS and isinstance(parts[1], Constant)
        code = compile_call(_CODES[function], codes, cost, charges_errors=not compiled)
        if function in _CONVERSIONS and isinstance(parts[0], Constant):
            value = _fold(code)
            return compile_constant(value) if type(value) is CelError else Constant(value)
        return code

    _PLANS: Final = {
        "const": _plan_const,
        "ident": _plan_ident,
        "select": _plan_select,
        "call": _plan_call,
        "list": _plan_list,
        "struct": _plan_struct,
        "comprehension": _plan_loop,
    }


def _compile_operator(function: str, parts: Sequence[Part]) -> Part | None:
    codes = [compile_part(part) for part in parts]
    match function:
        case "_&&_":
            return compile_logic(*codes, decisive=False)
        case "_||_":
            return compile_logic(*codes, decisive=True)
        case "_==_" | "_!=_":
            return compile_equality(*codes, negated=function == "_!=_")
        case "@not_strictly_false" | "__not_strictly_false__":
            return compile_not_strictly_false(*codes)
        case "or" | "orValue":
            return compile_optional_or(*codes, unwrapped=function == "orValue")
    return None


def _compile_membership_of_constants(parts: Sequence[Part]) -> Part | None:
    value, values = parts
    if not isinstance(values, Constant):
        return None
    if not values.value:
        return Constant(value=False)
    if not all(type(one) in _PRIMITIVES for one in values.value):
        return None
    return compile_membership(compile_part(value), values.value)


def _compile_error(text: str) -> Evaluate:
    return compile_constant(CelError(text))


def _fold(code: Evaluate) -> Any:
    """Evaluate code that reads no variable."""
    frame: Frame = [0, MAX_COST]
    return code(frame)


def _read_constant(const: Node) -> Any:
    kind = find_set_member(const)
    if kind in ("", "null_value"):
        return None
    value = getattr(const, kind)
    return Uint(value) if kind == "uint64_value" else value
