"""Rules that may run on the event loop, because their source shows that they are short: no side effects, counted steps.

The analysis knows a small part of Python: the object, texts, numbers, loops, functions and constants of the same file.
It compiles these functions once more, with a budget: each iteration and each operation whose cost depends on a value
spends units of it. A call that exceeds the budget, fails, or does something that the analysis cannot bound has no
result; the caller repeats it in a thread with the function as the author wrote it. So this code never makes a message.
"""

import ast
import builtins
from collections.abc import Mapping
from typing import Any, Final

from fleethook.admission.invocation import Denied
from fleethook.admission.named_members import Named, get, item, member
from fleethook.admission.rule_names import METHODS, Names, find_names, find_small, find_uses
from fleethook.admission.step_budget import Budget, ShortFunction, describe, is_constant, number, scalar

_NAMESPACE_WRITERS: Final = frozenset({"globals", "vars", "exec", "eval", "setattr", "delattr"})
"""With one of these, a file may change its constants in a way that the analysis does not see."""
_LABELS_COST: Final = 1_000
_PREFIX: Final = "_short_"

_TYPES: Final[Mapping[str, type]] = {one.__name__: one for one in (str, int, float, bool, dict, list)}
_COUNTED: Final = frozenset({"any", "all", "list", "tuple"})
_COMPARED: Final = frozenset({"sorted", "set", "min", "max", "sum"})
_BUILTINS: Final = frozenset(
    {"len", "enumerate", "zip", "range", "bool", "str", "int", "isinstance", *_COUNTED, *_COMPARED}
)
_SEARCHES: Final = frozenset({"partition", "rpartition", "split", "rsplit"})
_CUTS: Final = frozenset({"partition", "rpartition"})
_MAX_SEARCHED: Final = 16
_PREFIXES: Final = frozenset({"startswith", "endswith", "removeprefix", "removesuffix"})
_TEXT_METHODS: Final = frozenset({"lower", "upper", "strip", "isdigit", "isalnum", "isalpha", "islower", "isupper"})
_SIGNATURES: Final = {
    *((name, 0) for name in (*_TEXT_METHODS, "items", "values", "keys")),
    *((name, 1) for name in (*_PREFIXES, *_SEARCHES, "join", "get", "pop", "append", "add")),
    *((name, 2) for name in ("get", "pop", "setdefault")),
}
"""The methods that a short function may call, with the numbers of their arguments."""
_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


class _UnknownError(Exception):
    """The analysis does not know the code."""


def compile_short(text: bytes, file: str, names: Mapping[str, Any]) -> tuple[Mapping[int, ShortFunction], Budget]:
    """Compile the short rules of a file.

    Args:
        text: The text of the file.
        file: Its path.
        names: The names of the module that has run it.

    Returns:
        The short forms by the first line of the rule, and the budget that they spend.
    """
    budget = Budget()
    tree = ast.parse(text)
    if any(isinstance(one, ast.Name) and one.id in _NAMESPACE_WRITERS for one in ast.walk(tree)):
        return {}, budget
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    known = find_names(tree, names, functions)
    uses = {name: find_uses(one, known.constants) for name, one in functions.items()}
    made, calls = _rewrite_functions(functions, known)
    space: dict[str, Any] = {
        "__builtins__": {}, **_TYPES, **known.constants, "dict": (dict, Named),
        f"{_PREFIX}each": budget.step if known.appends else budget.each, f"{_PREFIX}spend": budget.spend,
        f"{_PREFIX}member": member, f"{_PREFIX}get": get, f"{_PREFIX}item": item,
        f"{_PREFIX}text": budget.text, f"{_PREFIX}sized": budget.sized, f"{_PREFIX}members": budget.members,
        f"{_PREFIX}contains": budget.contains, f"{_PREFIX}join": budget.join, f"{_PREFIX}scalar": scalar,
        f"{_PREFIX}scalars": budget.each_scalar, f"{_PREFIX}describe": describe, f"{_PREFIX}number": number,
        f"{_PREFIX}denied": Denied, **{f"{_PREFIX}{one}": getattr(builtins, one) for one in _BUILTINS},
    }  # fmt: skip
    module = ast.Module(list(made.values()), [])
    for node in ast.walk(module):
        # No message names these lines, because a call that fails is repeated with the function of the author.
        if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword):
            vars(node).update(lineno=1, end_lineno=1, col_offset=0, end_col_offset=0)
    exec(compile(module, file, "exec"), space)  # noqa: S102 - the rules of the operator
    short = {}
    for name in made:
        if functions[name].decorator_list:
            called = _find_called(name, calls)
            members = {member for one in called for member in uses[one].members}
            is_named = all(uses[one].changes_named for one in called)
            short[_find_line(functions[name])] = ShortFunction(space[f"{_PREFIX}do_{name}"], members, is_named)
    return short, budget


def _rewrite_functions(
    functions: Mapping[str, ast.FunctionDef], known: Names
) -> tuple[dict[str, ast.FunctionDef], dict[str, set[str]]]:
    """Return the functions that the analysis knows, by name, and the names of the functions that each of them calls."""
    made: dict[str, ast.FunctionDef] = {}
    calls: dict[str, set[str]] = {}
    for name, function in functions.items():
        if name in known.bound_once:
            analysis = _Analysis(known, function)
            try:
                made[name], calls[name] = analysis.rewrite(), analysis.calls
            except _UnknownError:
                continue
    while unknown := [name for name in made if not calls[name] <= made.keys()]:
        for name in unknown:
            del made[name]
    return made, calls


def _find_called(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    """Return a function and the functions that it calls."""
    found, waiting = set[str](), {name}
    while waiting - found:
        found |= waiting
        waiting = {inner for one in found for inner in calls[one]}
    return found


def _find_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


class _Analysis(ast.NodeTransformer):
    """Rewrites a function, so that it spends its budget; raises _UnknownError for code whose cost has no bound."""

    def __init__(self, known: Names, function: ast.FunctionDef) -> None:
        self.calls: set[str] = set()
        self._known: Final = known
        self._function: Final = function
        self._units = 0
        stored = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        self._locals: Final = stored | {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        constants = {name: value for name, value in known.constants.items() if name not in self._locals}
        self._small: Final = find_small(function, constants)

    def rewrite(self) -> ast.FunctionDef:
        """Return the function; `calls` has the functions that it calls then."""
        function, arguments = self._function, self._function.args
        defaults = [one for one in (*arguments.defaults, *arguments.kw_defaults) if one is not None]
        _require(not (arguments.vararg or arguments.kwarg or arguments.posonlyargs))
        _require(all(isinstance(one, ast.Constant) for one in defaults))
        _require(not (function.decorator_list and self._locals & {"store", "settings"}))
        for argument in (*arguments.args, *arguments.kwonlyargs):
            argument.annotation = None
        body = self._visit_all(function.body)
        spend = ast.Expr(_call("spend", ast.Constant(self._units + 1)))
        return ast.FunctionDef(f"{_PREFIX}do_{function.name}", arguments, [spend, *body], [])

    def _visit_all(self, nodes: list[Any]) -> list[Any]:
        return [self.visit(one) for one in nodes]

    def visit(self, node: ast.AST) -> Any:
        """Rewrite a node."""
        self._units += 1
        if isinstance(node, _SIMPLE):
            return self.generic_visit(node)
        visitor = getattr(self, f"visit_{type(node).__name__}", None)
        _require(visitor is not None)
        return visitor(node) if visitor else node

    def visit_Constant(self, node: ast.Constant) -> Any:
        _require(node.value is None or is_constant(node.value))
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        _require(not node.id.startswith(_PREFIX))
        _require(node.id in self._locals or (isinstance(node.ctx, ast.Load) and node.id in self._known.constants))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        _require(not node.attr.startswith("_") and node.attr not in METHODS)
        if node.attr in ("labels", "annotations"):
            self._units += _LABELS_COST
        if isinstance(node.ctx, ast.Load):
            return _call("member", self.visit(node.value), ast.Constant(node.attr))
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.slice, ast.Slice):
            _require(isinstance(node.ctx, ast.Load))
            bounds = [one and _call("number", self.visit(one)) for one in (node.slice.lower, node.slice.upper)]
            _require(node.slice.step is None)
            return ast.Subscript(_call("sized", self.visit(node.value)), ast.Slice(*bounds), node.ctx)
        if isinstance(node.ctx, ast.Load):
            return _call("item", self.visit(node.value), self._scalar(node.slice))
        return ast.Subscript(self.visit(node.value), self._scalar(node.slice), node.ctx)

    def visit_Assign(self, node: ast.Assign) -> Any:
        _require(len(node.targets) == 1)
        target = node.targets[0]
        value = self._fresh(node.value) if isinstance(target, ast.Attribute | ast.Subscript) else self.visit(node.value)
        return ast.Assign([self._target(target)], value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        _require(isinstance(node.target, ast.Name) and node.value is not None)
        return ast.Assign([node.target], self.visit(node.value)) if node.value else node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        _require(isinstance(node.target, ast.Name) and isinstance(node.op, _OPERATORS))
        name = ast.Name(getattr(node.target, "id", ""), ast.Load())
        return ast.Assign([node.target], self.visit_BinOp(ast.BinOp(name, node.op, node.value)))

    def visit_Delete(self, node: ast.Delete) -> Any:
        _require(all(isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets))
        return ast.Delete(self._visit_all(node.targets))

    def _target(self, node: Any) -> Any:
        _require(isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Tuple))
        return (
            ast.Tuple([self._target(one) for one in node.elts], node.ctx)
            if isinstance(node, ast.Tuple)
            else self.visit(node)
        )

    def visit_For(self, node: ast.For) -> Any:
        iterated, outer, self._units = self.visit(node.iter), self._units, 0
        target, body = self._target(node.target), self._visit_all(node.body)
        iterated, self._units = _count_each(iterated, self._units + 1), outer
        return ast.For(target, iterated, body, self._visit_all(node.orelse))

    def _visit_comprehension(self, node: Any) -> Any:
        first, outer, self._units = self.visit(node.generators[0].iter), self._units, 0
        iterated = [first, *(self.visit(one.iter) for one in node.generators[1:])]
        for one in node.generators:
            _require(not one.is_async)
            one.target, one.ifs = self._target(one.target), self._visit_all(one.ifs)
        if isinstance(node, ast.DictComp):
            node.key, node.value = self._scalar(node.key), self.visit(node.value)
        else:
            node.elt = self._scalar(node.elt) if isinstance(node, ast.SetComp) else self.visit(node.elt)
        for one, values in zip(node.generators, iterated, strict=True):
            one.iter = _count_each(values, self._units + 1)
        self._units = outer
        return node

    visit_ListComp = _visit_comprehension  # noqa: N815 - named by NodeVisitor
    visit_SetComp = _visit_comprehension  # noqa: N815 - named by NodeVisitor
    visit_DictComp = _visit_comprehension  # noqa: N815 - named by NodeVisitor
    visit_GeneratorExp = _visit_comprehension  # noqa: N815 - named by NodeVisitor

    def visit_Compare(self, node: ast.Compare) -> Any:
        _require(len(node.ops) == 1)
        operator, left, right = node.ops[0], node.left, node.comparators[0]
        if isinstance(operator, ast.In | ast.NotIn):
            found = _call("contains", self.visit(left), self.visit(right))
            return found if isinstance(operator, ast.In) else ast.UnaryOp(ast.Not(), found)
        if (
            isinstance(operator, ast.Is | ast.IsNot)
            or isinstance(left, ast.Constant)
            or isinstance(right, ast.Constant)
        ):
            return ast.Compare(self.visit(left), node.ops, [self.visit(right)])
        return ast.Compare(self._scalar(left), node.ops, [self._scalar(right)])

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        _require(isinstance(node.op, _OPERATORS))
        return ast.BinOp(self._guard("number", node.left), node.op, self._guard("number", node.right))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        _require(node.format_spec is None)
        return ast.FormattedValue(self._guard("describe", node.value), node.conversion)

    def visit_Dict(self, node: ast.Dict) -> Any:
        return ast.Dict([self._scalar(one) for one in node.keys], self._visit_all(node.values))

    def visit_Set(self, node: ast.Set) -> Any:
        return ast.Set([self._scalar(one) for one in node.elts])

    def _scalar(self, node: Any) -> Any:
        _require(node is not None)
        return self._guard("scalar", node)

    def _guard(self, guard: str, node: ast.expr) -> Any:
        """Rewrite a value that has to be small; constants are."""
        is_number = guard == "number"
        if isinstance(node, ast.Constant):
            return self.visit(node) if not is_number else _call(guard, self.visit(node))
        is_small = isinstance(node, ast.Name) and node.id in self._small and not is_number
        return self.visit(node) if is_small else _call(guard, self.visit(node))

    def _fresh(self, node: Any) -> Any:
        """Rewrite a value that becomes part of the object: no other name has its objects and lists."""
        if isinstance(node, ast.Dict):
            return ast.Dict([self._scalar(one) for one in node.keys], [self._fresh(one) for one in node.values])
        if isinstance(node, ast.List):
            return ast.List([self._fresh(one) for one in node.elts], node.ctx)
        return _call("describe", self.visit(node))

    def visit_Return(self, node: ast.Return) -> Any:
        if self._function.decorator_list:
            _require(node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None))
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        call = node.exc
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and node.cause is None):
            raise _UnknownError
        _require(call.func.id in self._known.denied - self._locals)
        keywords = [ast.keyword(one.arg, self._scalar(one.value)) for one in call.keywords if one.arg]
        _require(len(keywords) == len(call.keywords))
        return ast.Raise(ast.Call(_name("denied"), [self._scalar(one) for one in call.args], keywords))

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute):
            _require(not node.keywords)
            return self._rewrite_method(node.func, node.args)
        if not isinstance(node.func, ast.Name) or node.func.id in self._locals:
            raise _UnknownError
        name = node.func.id
        if name in self._known.helpers:
            self.calls.add(name)
            _require(all(one.arg for one in node.keywords))
            keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]
            return ast.Call(_name(f"do_{name}"), self._visit_all(node.args), keywords)
        _require(name in _BUILTINS and name not in self._known.bound and not node.keywords)
        return self._rewrite_builtin(name, node.args)

    def _rewrite_builtin(self, name: str, arguments: list[ast.expr]) -> Any:
        if name == "isinstance":
            _require(len(arguments) == 2)
            kinds = arguments[1].elts if isinstance(arguments[1], ast.Tuple) else [arguments[1]]
            names = {one.id if isinstance(one, ast.Name) else "" for one in kinds}
            _require(names <= _TYPES.keys() - self._locals - self._known.bound)
            return _call(name, self.visit(arguments[0]), arguments[1])
        self._units += _CALL_COST
        visited = self._visit_all(arguments)
        if name in ("enumerate", "zip", "range"):
            return _call(name, *visited)
        _require(len(visited) == 1)
        if name in _COUNTED:
            has_counted = isinstance(arguments[0], ast.GeneratorExp | ast.ListComp)
            return _call(name, visited[0] if has_counted else _count_each(visited[0], 1))
        if name in _COMPARED:
            return _call(name, _call("scalars", visited[0]))
        return _call(name, _call("describe", visited[0])) if name in ("str", "int") else _call(name, visited[0])

    def _rewrite_method(self, method: ast.Attribute, arguments: list[Any]) -> Any:
        name, value = method.attr, self.visit(method.value)
        _require((name, len(arguments)) in _SIGNATURES)
        if name == "join":
            return _call(name, value, self.visit(arguments[0]))
        if name in ("items", "values"):
            value = _call("members", value)
        elif name == "get":
            return _call(name, value, *self._rewrite_arguments(name, arguments))
        elif name in _PREFIXES or (name in _CUTS and self._has_length_one(arguments[0])):
            self._units += _TEXT_COST
        elif name in _TEXT_METHODS | _SEARCHES:
            value = _call("text", value)
        return ast.Call(ast.Attribute(value, name, ast.Load()), self._rewrite_arguments(name, arguments), [])

    def _rewrite_arguments(self, name: str, arguments: list[Any]) -> list[Any]:
        if name in _SEARCHES:
            _require(isinstance(arguments[0], ast.Constant) and len(str(arguments[0].value)) <= _MAX_SEARCHED)
            return arguments
        if name in _PREFIXES and self._is_constant(arguments[0]):
            return arguments
        if name == "append":
            return [self._fresh(arguments[0])]
        rewrite = self._fresh if name == "setdefault" else self.visit
        return [*(self._scalar(one) for one in arguments[:1]), *(rewrite(one) for one in arguments[1:])]

    def _is_constant(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(isinstance(one, ast.Constant) for one in node.elts)
        return isinstance(node, ast.Name) and node.id in self._known.constants.keys() - self._locals

    def _has_length_one(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) == 1


_SIMPLE: Final = (
    ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.If, ast.Pass, ast.Break, ast.Continue, ast.Tuple,
    ast.List, ast.JoinedStr, ast.expr_context, ast.boolop, ast.unaryop,
)  # fmt: skip
_TEXT_COST: Final = 20
"""The units of a method that copies a text of 32 KiB, or searches one character in it."""
_CALL_COST: Final = 50
"""The units of `int` of a text with a thousand digits."""


def _require(known: object) -> None:
    if not known:
        raise _UnknownError


def _name(guard: str) -> ast.Name:
    return ast.Name(f"{_PREFIX}{guard}", ast.Load())


def _count_each(values: Any, units: int) -> Any:
    """Return an iterable whose values spend units."""
    if isinstance(values, ast.Call) and isinstance(values.func, ast.Name) and values.func.id == f"{_PREFIX}enumerate":
        return _call("enumerate", _call("each", values.args[0], ast.Constant(units)), *values.args[1:])
    return _call("each", values, ast.Constant(units))


def _call(guard: str, *arguments: Any) -> Any:
    return ast.Call(_name(guard), list(arguments), [])
