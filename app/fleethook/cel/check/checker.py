"""Checks the types of expressions and resolves their names (cel-go: checker/checker.go).

After that, `validate` checks literals as kube-apiserver configures it (cel-go: cel/validator.go).
"""

from collections.abc import Sequence
from itertools import count
from typing import Final

from fleethook.cel.check.types_and_declarations import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    FIELDS,
    IDENTS,
    INT,
    NULL,
    STRING,
    UINT,
    Overload,
    Substitutions,
    Type,
    format_type,
    get_most_general,
    instantiate,
    is_dynamic,
    is_dynamic_or_error,
    make_list,
    make_map,
    make_optional,
    read_functions,
    unwrap_optional,
)
from fleethook.cel.compile_error_list import SourceErrors
from fleethook.cel.library import FUNCTIONS
from fleethook.cel.library.strings_and_regex import compile_pattern
from fleethook.cel.parse.syntax_tree import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    walk,
)
from fleethook.cel.values.values_and_overloads import Uint, build_resolvers, can_parse

_LITERALS: Final = {
    bool: BOOL, bytes: BYTES, float: DOUBLE, int: INT, str: STRING, Uint: UINT, type(None): NULL,
}  # fmt: skip
_LOGIC: Final = frozenset({"_&&_", "_||_"})


def check(tree: Node, errors: SourceErrors) -> Type:
    """Add types and overloads to all nodes of a tree, and return the type of the expression."""
    checker = _Checker(errors)
    checker.check(tree)
    checker.finish()
    return tree.type or ERROR


class _Checker:
    """Checks one expression."""

    def __init__(self, errors: SourceErrors) -> None:
        self._errors: Final = errors
        self._substitutions: Final = Substitutions()
        self._functions: Final = read_functions()
        self._fresh: Final = count()
        self._checked: Final[list[Node]] = []
        self._locals: dict[str, Type] = {}

    def check(self, node: Node) -> Type:
        """Check a node and all nodes below it."""
        match node:
            case Literal():
                found = _LITERALS[type(node.value)]
            case Ident():
                found = self._check_ident(node)
            case Select():
                found = self._check_select(node)
            case Call():
                found = self._check_call(node)
            case ListLiteral():
                found = self._check_list(node)
            case MapLiteral():
                found = self._check_map(node)
            case Comprehension():
                found = self._check_comprehension(node)
            case _:
                raise TypeError(f"no expression: {type(node).__name__}")
        node.type = found
        self._checked.append(node)
        return found

    def finish(self) -> None:
        """Replace the type parameters in the types of all nodes."""
        for node in self._checked:
            node.type = self._substitutions.substitute(node.type or ERROR, dynamic=True)

    def _look_up(self, name: str) -> Type | None:
        return self._locals.get(name) or IDENTS.get(name.lstrip("."))

    def _check_ident(self, node: Ident) -> Type:
        found = self._look_up(node.name)
        if found is None:
            return self._reject_name(node, node.name)
        return found

    def _reject_name(self, node: Node, name: str) -> Type:
        return self._reject(node, f"undeclared reference to '{name}' (in container '')")

    def _reject(self, node: Node, text: str) -> Type:
        self._errors.add(node.offset, text)
        return ERROR

    def _check_select(self, node: Select) -> Type:
        name = _qualify(node)
        found = self._look_up(name) if name else None
        if found is not None:
            node.resolved = name.lstrip(".")
            return found
        selected = self._select_field(node, node.operand, node.field, optional=False)
        return BOOL if node.tested else self._substitutions.substitute(selected)

    def _select_field(self, node: Node, operand: Node, field: str, *, optional: bool) -> Type:
        target, is_optional = unwrap_optional(self._substitutions.substitute(self.check(operand)))
        found = self._find_field(node, target, field)
        return make_optional(found) if is_optional or optional else found

    def _find_field(self, node: Node, target: Type, field: str) -> Type:
        if target.kind == "map":
            return target.parameters[1]
        if target.kind == "struct":
            found = FIELDS[target.name].get(field)
            return self._reject(node, f"undefined field '{field}'") if found is None else found
        if target.kind == "param":
            self._substitutions.assign(DYN, target)
        elif not is_dynamic_or_error(target):
            self._reject(node, f"type '{format_type(target)}' does not support field selection")
        return DYN

    def _check_call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.arguments[1]
            node.overloads = ("select_optional_field",)
            name = field.value if isinstance(field, Literal) else ""
            selected = self._select_field(node, node.arguments[0], name, optional=True)
            field.type = STRING
            return self._substitutions.substitute(selected)
        for argument in node.arguments:
            self.check(argument)
        if node.target is None:
            return self._resolve(node, node.function)
        prefix = _qualify(node.target)
        qualified = f"{prefix}.{node.function}".lstrip(".")
        if prefix and qualified in self._functions:
            node.function, node.target = qualified, None
            return self._resolve(node, qualified)
        self.check(node.target)
        return self._resolve(node, node.function)

    def _resolve(self, node: Call, function: str) -> Type:
        """Find the overloads of a function that accept the types of the arguments."""
        function = function.lstrip(".") or function
        overloads = self._functions.get(function)
        if overloads is None:
            return self._reject_name(node, node.function)
        node.function = function
        given = [one.type or ERROR for one in ([node.target] if node.target else []) + node.arguments]
        if function in _LOGIC:
            return self._check_logic(node, overloads[0], given)
        result: Type | None = None
        found: list[str] = []
        for overload in overloads:
            if overload.member is not (node.target is not None):
                continue
            arguments, returned = self._instantiate(overload)
            if not self._substitutions.assign_all(given, arguments):
                continue
            found.append(overload.name)
            returned = self._substitutions.substitute(returned)
            if result is None:
                result = returned
            elif not is_dynamic(result) and result != returned:
                result = DYN
        if result is None:
            return self._reject_overload(node, given)
        node.overloads = tuple(found)
        return result

    def _instantiate(self, overload: Overload) -> tuple[Sequence[Type], Type]:
        if not overload.parameters:
            return overload.arguments, overload.result
        fresh = {parameter: self._make_parameter() for parameter in overload.parameters}
        (result,) = instantiate((overload.result,), fresh)
        return instantiate(overload.arguments, fresh), result

    def _make_parameter(self) -> Type:
        return Type("param", f"_var{next(self._fresh)}")

    def _check_logic(self, node: Call, overload: Overload, given: Sequence[Type]) -> Type:
        node.overloads = (overload.name,)
        valid = True
        for argument, one in zip(node.arguments, given, strict=True):
            if not self._substitutions.assign(one, BOOL):
                self._reject_type(argument, BOOL, one)
                valid = False
        return BOOL if valid else ERROR

    def _reject_type(self, node: Node, expected: Type, found: Type) -> Type:
        return self._reject(node, f"expected type '{format_type(expected)}' but found '{format_type(found)}'")

    def _reject_overload(self, node: Call, given: Sequence[Type]) -> Type:
        shown = [format_type(self._substitutions.substitute(one, dynamic=True)) for one in given]
        signature = f"({', '.join(shown)})"
        if node.target is not None:
            signature = f"{shown[0]}.({', '.join(shown[1:])})"
        return self._reject(node, f"found no matching overload for '{node.function}' applied to '{signature}'")

    def _check_list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for position, element in enumerate(node.elements):
            found = self.check(element)
            if position in node.optional:
                found = self._unwrap(element, found)
            joined = self._join(joined, found)
        return make_list(self._make_parameter() if joined is None else joined)

    def _unwrap(self, node: Node, found: Type) -> Type:
        value, is_optional = unwrap_optional(found)
        if not is_optional and not is_dynamic(value):
            self._reject_type(node, make_optional(value), value)
        return value

    def _join(self, former: Type | None, found: Type) -> Type:
        if former is None:
            return found
        # The validation rejects elements of different types later, and allows them in arguments of a format.
        return get_most_general(former, found) if self._substitutions.assign(former, found) else DYN

    def _check_map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self._unwrap(entry.value, found)
            values = self._join(values, found)
        if keys is None or values is None:
            return make_map(self._make_parameter(), self._make_parameter())
        return make_map(keys, values)

    def _check_comprehension(self, node: Comprehension) -> Type:
        self.check(node.range)
        accumulated = self.check(node.initial)
        outer = self._locals
        within = {**outer, node.accumulator: accumulated}
        first, second = self._find_variables(node)
        self._locals = {**within, node.first: first}
        if node.second:
            self._locals[node.second] = second
        condition = self.check(node.condition)
        if not self._substitutions.assign(BOOL, condition):
            self._reject_type(node.condition, BOOL, condition)
        step = self.check(node.step)
        if not self._substitutions.assign(accumulated, step):
            self._reject_type(node.step, accumulated, step)
        self._locals = within
        result = self.check(node.result)
        self._locals = outer
        return self._substitutions.substitute(result)

    def _find_variables(self, node: Comprehension) -> tuple[Type, Type]:
        """Return the types of the variables of a loop."""
        values = self._substitutions.substitute(node.range.type or ERROR)
        if values.kind == "list":
            element = values.parameters[0]
            return (INT, element) if node.second else (element, DYN)
        if values.kind == "map":
            return values.parameters[0], values.parameters[1]
        if values.kind == "param" or is_dynamic_or_error(values):
            self._substitutions.assign(DYN, values)
            return DYN, DYN
        shown = format_type(values)
        problem = "cannot be range of a comprehension (must be list, map, or dynamic)"
        self._reject(node.range, f"expression of type '{shown}' {problem}")
        return ERROR, ERROR


def _qualify(node: Node) -> str:
    """Return the dotted name that a chain of selections spells, ``""`` for other nodes."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.tested:
        prefix = _qualify(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""


_PARSED = ("duration", "timestamp")
_RESOLVERS = build_resolvers(function for function in FUNCTIONS if function.name in _PARSED)


def validate(tree: Node, errors: SourceErrors) -> None:
    """Add the errors about literals in a tree: durations, timestamps, patterns, and mixed types."""
    for node in walk(tree):
        if isinstance(node, Call):
            _validate_call(node, errors)
    _validate_literals(tree, errors)


def _validate_call(node: Call, errors: SourceErrors) -> None:
    literal = node.arguments[0] if node.arguments else None
    if isinstance(literal, Literal):
        valid = True
        if node.function in _RESOLVERS:
            valid = can_parse(_RESOLVERS[node.function], literal.value)
        elif node.function == "matches" and isinstance(literal.value, str):
            valid = can_parse(compile_pattern, literal.value)
        if not valid:
            errors.add(literal.offset, f"invalid {node.function} argument")


def _validate_literals(tree: Node, errors: SourceErrors) -> None:
    """Check that the elements of each list and map have one type; the arguments of a format may differ."""
    pending = [(tree, False)]
    while pending:
        one, exempted = pending.pop()
        exempted = exempted or (isinstance(one, Call) and one.function == "format")
        if not exempted and isinstance(one, ListLiteral):
            _compare_types(one.elements, one.optional, errors)
        elif not exempted and isinstance(one, MapLiteral):
            _compare_types([entry.key for entry in one.entries], frozenset(), errors, all_of_them=True)
            optional = frozenset(position for position, entry in enumerate(one.entries) if entry.optional)
            _compare_types([entry.value for entry in one.entries], optional, errors, all_of_them=True)
        pending += [(child, exempted) for child in one.list_children()]


def _compare_types(
    nodes: Sequence[Node], optional: frozenset[int], errors: SourceErrors, *, all_of_them: bool = False
) -> None:
    first: Type | None = None
    for position, node in enumerate(nodes):
        found = node.type or ERROR
        if position in optional:
            found = unwrap_optional(found)[0] if not is_dynamic(found) else found
        if first is None:
            first = found
        elif first != found:
            errors.add(node.offset, f"expected type '{format_type(first)}' but found '{format_type(found)}'")
            if not all_of_them:
                return
