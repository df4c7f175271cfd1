"""Plans checked expressions: each node becomes a function of a frame (cel-go: interpreter/planner.go).

The planner evaluates constant parts, as cel-go does with OptOptimize. They cost nothing at run time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from fleethook.cel.check.types_and_declarations import TYPES
from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.cost_and_length_limits import MAX_COST, run_without_request
from fleethook.cel.library import FUNCTIONS
from fleethook.cel.library.strings_and_regex import compile_pattern
from fleethook.cel.parse.syntax_tree import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from fleethook.cel.plan.attributes import (
    Attribute,
    ConditionalAttribute,
    Constant,
    Member,
    Part,
    append_member,
    as_attribute,
    build_member,
    compile_local,
    compile_part,
    compile_variable,
)
from fleethook.cel.plan.calls_literals_loops import (
    Evaluate,
    Frame,
    Loop,
    compile_accumulator,
    compile_call,
    compile_list,
    compile_logic,
    compile_loop,
    compile_map,
    compile_not_strictly_false,
    compile_optional_or,
)
from fleethook.cel.plan.costs import CallCost, find_call_cost
from fleethook.cel.values.operators import OPERATORS, is_equal
from fleethook.cel.values.values_and_overloads import NO_SUCH_OVERLOAD, CelError, CelType, Uint, build_resolvers

VARIABLES: Final = (
    "object",
    "oldObject",
    "namespaceObject",
    "request",
    "authorizer",
    "authorizer.requestResource",
)
FIRST_VARIABLE: Final = 2
FIRST_LOCAL: Final = FIRST_VARIABLE + len(VARIABLES)


class ExpressionPlan(NamedTuple):
    """The code of an expression, the size of its frame, and the number of its nodes."""

    code: Evaluate
    slots: int
    nodes: int


def _negate_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(NO_SUCH_OVERLOAD)
    return not value


def _reject_call(*_arguments: Any) -> NoReturn:
    """Fail: the functions of ``authorizer``, which no request has, compile as in kube-apiserver."""
    raise TypeError(NO_SUCH_OVERLOAD)


_CODES: Final[dict[str, Any]] = {
    **build_resolvers(FUNCTIONS),
    **OPERATORS,
    "!_": _negate_bool,
}
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)
_PRIMITIVES: Final = frozenset({bool, int, Uint, float, str, type(None)})
_REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
_OPTIONAL_MEMBERS: Final = frozenset({"_?._", "_[?_]"})


_Scope = Mapping[str, Evaluate]
"""The variables of the comprehensions around a node."""


class Planner:
    """Turns one checked expression into code."""

    def __init__(self, root: Node) -> None:
        """Take the tree of an expression, after its check."""
        self._root: Final = root
        self._slots = FIRST_LOCAL
        self._nodes = 0

    def plan(self) -> ExpressionPlan:
        """Return the plan of the expression."""
        code = compile_part(self._plan_node(self._root, {}))
        return ExpressionPlan(code, self._slots, self._nodes)

    def _allocate_slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    def _plan_node(self, node: Node, scope: _Scope) -> Part:
        self._nodes += 1
        part: Part
        match node:
            case Literal():
                part = Constant(node.value)
            case Ident():
                part = self._plan_name(node.name, scope)
            case Select():
                part = self._plan_select(node, scope)
            case Call():
                part = self._plan_call(node, scope)
            case ListLiteral():
                part = self._plan_list(node, scope)
            case MapLiteral():
                part = self._plan_map(node, scope)
            case Comprehension():
                part = self._plan_loop(node, scope)
            case _:
                raise TypeError(f"no expression: {type(node).__name__}")
        return part

    def _compile_node(self, node: Node, scope: _Scope) -> Evaluate:
        return compile_part(self._plan_node(node, scope))

    def _plan_name(self, name: str, scope: _Scope) -> Part:
        if name in scope:
            return Attribute(scope[name])
        name = name.lstrip(".")
        if name in VARIABLES:
            return Attribute(compile_variable(FIRST_VARIABLE + VARIABLES.index(name), name))
        if TYPES[name].kind == "struct" or name in {"timestamp", "duration"}:
            raise _reject(f"reference to undefined type: {name}")
        return Constant(CelType(name))

    def _plan_select(self, node: Select, scope: _Scope) -> Part:
        if node.resolved:
            return self._plan_name(node.resolved, scope)
        return append_member(self._plan_node(node.operand, scope), Member(node.field, tested=node.tested))

    def _plan_list(self, node: ListLiteral, scope: _Scope) -> Part:
        parts = [self._plan_node(element, scope) for element in node.elements]
        code = compile_list([compile_part(part) for part in parts], node.optional)
        return _fold_literal(code) if all(isinstance(part, Constant) for part in parts) else code

    def _plan_map(self, node: MapLiteral, scope: _Scope) -> Part:
        parts = [
            (self._plan_node(entry.key, scope), self._plan_node(entry.value, scope), entry.optional)
            for entry in node.entries
        ]
        code = compile_map([(compile_part(key), compile_part(value), optional) for key, value, optional in parts])
        constant = all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in parts)
        return _fold_literal(code) if constant else code

    def _plan_loop(self, node: Comprehension, scope: _Scope) -> Part:
        collected, first, second = (self._allocate_slot() for _ in range(3))
        result = compile_accumulator(collected, self._compile_node(node.initial, scope))
        after = {**scope, node.accumulator: result}
        within = {**after, node.first: compile_local(first)}
        if node.second:
            within[node.second] = compile_local(second)
        return compile_loop(
            Loop(
                range=self._compile_node(node.range, scope),
                condition=self._compile_node(node.condition, within),
                step=self._compile_node(node.step, within),
                result=self._compile_node(node.result, after),
                accumulator=collected,
                first=first,
                second=second,
                has_pairs=bool(node.second),
            )
        )

    def _plan_call(self, node: Call, scope: _Scope) -> Part:
        function = node.function
        arguments = [*([node.target] if node.target is not None else []), *node.arguments]
        parts = [self._plan_node(argument, scope) for argument in arguments]
        if function in ("_[_]", *_OPTIONAL_MEMBERS):
            return append_member(parts[0], build_member(parts[1], optional=function in _OPTIONAL_MEMBERS))
        if function == "_?_:_":
            return ConditionalAttribute(compile_part(parts[0]), as_attribute(parts[1]), as_attribute(parts[2]))
        return _compile_operator(function, parts) or self._plan_function(function, parts, node.overloads)

    def _plan_function(self, function: str, parts: Sequence[Part], overloads: Sequence[str]) -> Part:
        if function == "@in" and len(overloads) == 1 and overloads[0] == "in_list":
            member = _compile_membership_of_constants(parts)
            if member is not None:
                return member
        codes = [compile_part(part) for part in parts]
        cost = find_call_cost(function, overloads)
        # cel-go compiles constant patterns and then plans the call like one with more than two arguments.
        compiled = function in _REGEX_FUNCTIONS and isinstance(parts[1], Constant)
        if compiled:
            _check_pattern(parts[1])
        code = compile_call(_CODES.get(function, _reject_call), codes, cost, charges_errors=not compiled)
        if function in _CONVERSIONS and isinstance(parts[0], Constant):
            value = _fold(code)
            if type(value) is CelError:
                raise _reject(value.text)
            return Constant(value)
        return code


def _reject(problem: str) -> ExpressionError:
    return ExpressionError(f"program instantiation failed: {problem}")


def _check_pattern(pattern: Part) -> None:
    if isinstance(pattern, Constant) and isinstance(pattern.value, str):
        try:
            compile_pattern(pattern.value)
        except ValueError as error:
            raise _reject(str(error)) from None


def _fold_literal(code: Evaluate) -> Part:
    value = _fold(code)
    return code if type(value) is CelError else Constant(value)


def _compile_operator(function: str, parts: Sequence[Part]) -> Part | None:
    codes = [compile_part(part) for part in parts]
    match function:
        case "_&&_":
            return compile_logic(*codes, decisive=False)
        case "_||_":
            return compile_logic(*codes, decisive=True)
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
    # cel-go's evalSetMembership is free.
    return compile_call(
        lambda one: any(is_equal(one, other) for other in values.value), [compile_part(value)], CallCost(0)
    )


def _fold(code: Evaluate) -> Any:
    """Evaluate code that reads no variable."""
    frame: Frame = [0, MAX_COST]
    return run_without_request(lambda: code(frame))
