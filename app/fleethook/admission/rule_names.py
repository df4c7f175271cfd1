"""The names in a file of rules: its functions and constants, and the members of objects that a function names."""

import ast
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from fleethook.admission.invocation import Denied
from fleethook.admission.members import Members
from fleethook.admission.step_budget import is_constant, list_contents

METHODS: Final = frozenset(
    name for one in (str, dict, list, tuple, set, frozenset, int, float, Members) for name in dir(one)
)
_READS: Final = frozenset({"get", "items", "keys", "values"})


class Names(NamedTuple):
    """The names of a file that short functions may use.

    Attributes:
        bound_once: The names that one statement of the file binds.
        bound: All names that it binds.
        constants: The values that never change, by name.
        denied: The names of `Denied`.
        helpers: The functions without a decorator.
        appends: Whether a list may grow while a function iterates over it.
    """

    bound_once: set[str]
    bound: set[str]
    constants: dict[str, Any]
    denied: set[str]
    helpers: set[str]
    appends: bool


def find_names(tree: ast.Module, names: Mapping[str, Any], functions: Mapping[str, ast.FunctionDef]) -> Names:
    """Return the names of a file.

    Args:
        tree: Its code.
        names: The names of the module that has run it, with their values.
        functions: Its functions by name.
    """
    bindings = Counter(_list_bindings(tree))
    written = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    leaked = _find_leaked(tree)
    bound_once = {name for name, count in bindings.items() if count == 1 and name not in written}
    appends = any(isinstance(one, ast.Attribute) and one.attr == "append" for one in ast.walk(tree))
    found = Names(bound_once, {*bindings, *names}, {}, set(), set(), appends)
    for name in found.bound_once & names.keys():
        value = names[name]
        if value is Denied:
            found.denied.add(name)
        elif isinstance(value, types.FunctionType) and not getattr(functions.get(name), "decorator_list", True):
            found.helpers.add(name)
        elif is_constant(value) or (name not in leaked and all(map(is_constant, list_contents(value)))):
            found.constants[name] = value
    return found


def _list_bindings(node: ast.AST) -> Iterator[str]:
    """Yield the names that the statements of a module bind, without those of its functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.alias):
            yield (child.asname or child.name).partition(".")[0]
        elif isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            yield child.id
        else:
            if isinstance(child, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and child.name:
                yield child.name
            yield from _list_bindings(child)


def _find_leaked(tree: ast.Module) -> set[str]:
    """Return the names whose values a statement of the file may change, or keep elsewhere."""
    reads: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            pairs = zip(node.ops, node.comparators, strict=True)
            reads |= {id(right) for operator, right in pairs if isinstance(operator, ast.In | ast.NotIn)}
        elif isinstance(node, ast.For | ast.comprehension):
            reads.add(id(node.iter))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            reads.add(id(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            reads.add(id(node.func.value))
    loads = (one for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    return {one.id for one in loads if id(one) not in reads}


class Uses(NamedTuple):
    """The members of objects in a function.

    Attributes:
        members: The names that the function may read or change.
        changes_named: Whether it changes nothing but members of these names.
    """

    members: frozenset[str]
    changes_named: bool


def find_uses(function: ast.FunctionDef, constants: Mapping[str, Any]) -> Uses:
    """Return the members that a function names; ``constants`` are those that it may use, by name."""
    code = (*function.args.defaults, *function.body)
    members = frozenset(name for part in code for name in _find_member_names(part, constants))
    return Uses(members, not any(map(_changes_other, ast.walk(function))))


def _changes_other(node: ast.AST) -> bool:
    """Return whether code changes a list, or a member whose name is no constant."""
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load) and not _is_text(node.slice)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr == "append" or (node.func.attr in ("setdefault", "pop") and not _is_text(node.args[0]))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _find_member_names(node: ast.AST, constants: Mapping[str, Any]) -> Iterator[str]:
    """Yield the attributes and constants of code that may name members; no parts of messages."""
    if isinstance(node, ast.Attribute) and node.attr not in METHODS:
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in constants:
        yield from _find_texts(constants[node.id])
    is_message = isinstance(node, ast.Raise | ast.JoinedStr)
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    for child in () if is_message or is_text else ast.iter_child_nodes(node):
        yield from _find_member_names(child, constants)


def _find_texts(value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) in (tuple, frozenset, list, set, dict):
        for one in value:
            yield from _find_texts(one)


def find_small(function: ast.FunctionDef, constants: Mapping[str, Any]) -> set[str]:
    """Return the names that only have values of constants, or positions, so that no guard has to look at them.

    Args:
        function: The function that binds the names.
        constants: The constants that it may use, by name.
    """
    stores = [one for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    bound = Counter(one.id for one in stores)
    tuples = {
        one.targets[0].id: one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and bound[one.targets[0].id] == 1
    }
    small: Counter[str] = Counter()
    for one in ast.walk(function):
        if isinstance(one, ast.For | ast.comprehension):
            values = tuples.get(one.iter.id, one.iter) if isinstance(one.iter, ast.Name) else one.iter
            target: Any = one.target
            if isinstance(values, ast.Call) and isinstance(values.func, ast.Name) and values.func.id == "enumerate":
                target = target.elts[0] if isinstance(target, ast.Tuple) else None
            elif not _has_constants(values, constants):
                continue
            small.update(part.id for part in getattr(target, "elts", [target]) if isinstance(part, ast.Name))
    return {name for name, count in small.items() if count == bound[name]}


def _has_constants(node: ast.expr, constants: Mapping[str, Any]) -> bool:
    """Return whether a tuple has only constants, and tuples of them."""
    if isinstance(node, ast.Name):
        value = constants.get(node.id)
        return type(value) is tuple and is_constant(value)
    parts = [node, *getattr(node, "elts", ())]
    return (
        isinstance(node, ast.Tuple)
        and all(isinstance(one, ast.Constant | ast.Tuple) for one in parts)
        and all(isinstance(one, ast.Constant) for part in parts[1:] for one in getattr(part, "elts", ()))
    )
