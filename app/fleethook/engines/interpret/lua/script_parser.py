"""Parses the statements of a script of Lua 5.1: finds its functions and suspicious code, and rewrites it for Lua 5.4.

Sources: Lua 5.1 reference manual, 2.8 (the grammar); karmada v1.16
pkg/resourceinterpreter/customized/declarative/luavm.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fleethook.engines.interpret.lua.script_expressions import ExpressionParser, FunctionInfo, FunctionScope, Scope
from fleethook.engines.interpret.lua.script_scanner_and_rewriter import LuaSyntaxError, Token
from fleethook.engines.interpret.lua.script_warnings import ScriptWarning, find_global_variables

MAX_DEPTH: Final = 150
"""Levels of nested blocks and expressions."""


class Script(NamedTuple):
    """A parsed script."""

    runnable: str
    """The script rewritten for Lua 5.4, with the same lines."""
    functions: dict[str, FunctionInfo]
    """The global functions that its top level defines."""
    findings: list[ScriptWarning]
    assigned: frozenset[str]
    """The globals that it sets, at any place."""
    portability: list[ScriptWarning]
    """Code that does not run in Karmada."""
    reads: dict[str, int]
    """The globals that it reads, each with its first line."""


def parse_script(source: str, *, known: frozenset[str] = frozenset()) -> Script:
    """Parse a script.

    Args:
        source: A script of Lua 5.1.
        known: The predefined globals; reading another global is a finding.

    Raises:
        LuaSyntaxError: The script is not valid Lua 5.1.
    """
    return _Parser(source, known).script()


def wrap_body(source: str, *, name: str, parameters: Sequence[str]) -> str:
    """Return a script that defines a function with the body ``source``; line numbers do not change.

    If the body does not return a value, the function returns its first parameter.
    """
    return f"function {name}({','.join(parameters)}) do {source}\nend return {parameters[0]} end"


class _Parser(ExpressionParser):
    """A recursive descent parser that collects the functions and findings of a script."""

    def __init__(self, source: str, known: frozenset[str]) -> None:
        super().__init__(source, MAX_DEPTH)
        self._known: Final = known
        self._functions: Final[dict[str, FunctionInfo]] = {}
        self._assigned: Final[set[str]] = set()
        self._leaks: Final[list[tuple[int, str, bool]]] = []

    def script(self) -> Script:
        self._block()
        if self._now.kind != "end":
            raise self._unexpected()
        portability = list(self._portability.findings())
        findings = list(find_global_variables(self._leaks, self._reads, self._assigned | self._known))
        reads = {name: line for line, name in reversed(self._reads)}
        assigned = frozenset(self._assigned)
        return Script(self._edits.text(), self._functions, findings, assigned, portability, reads)

    # Blocks and statements. Each method returns whether the code always ends with a return or an error.

    def _block(self, *, names: Sequence[str] = (), function: FunctionScope | None = None) -> bool:
        self._enter()
        outer = self._scope
        self._scope = Scope(outer, function=function or outer.function)
        self._scope.names.update(names)
        ends = False
        while not self._is("end", "else", "elseif", "until") and self._now.kind != "end":
            if self._is("return"):
                ends = self._return()
                break
            ends = self._statement()
        if not self._is("until"):  # its condition sees the block's locals
            self._scope = outer
        self._depth -= 1
        return ends

    def _return(self) -> bool:
        self._scope.function.returned.append(self._next().line)
        empty = self._is("end", "else", "elseif", "until", ";") or self._now.kind == "end"
        if not empty:
            self._expressions()
        self._accept(";")
        return not empty

    def _statement(self) -> bool:
        token = self._now
        if token.kind == "keyword":
            handler = {
                "if": self._if, "while": self._while, "do": self._do, "for": self._for, "repeat": self._repeat,
                "function": self._function_statement, "local": self._local, "break": self._break, "goto": self._goto,
            }.get(token.text)  # fmt: skip
            if handler is None:
                raise self._unexpected()
            return handler()
        if self._accept(";"):
            return False
        if self._accept("::"):
            self._name()
            self._expect("::")
            return False
        return self._expression_statement()

    def _if(self) -> bool:
        opened = self._next()
        self._expression()
        self._expect("then")
        every = self._block()
        while self._is("elseif"):
            self._next()
            self._expression()
            self._expect("then")
            every &= self._block()
        if self._accept("else"):
            every &= self._block()
        else:
            every = False
        self._expect("end", opened=opened)
        return every

    def _while(self) -> bool:
        opened = self._next()
        self._expression()
        self._expect("do")
        self._block()
        self._expect("end", opened=opened)
        return False

    def _do(self) -> bool:
        opened = self._next()
        ends = self._block()
        self._expect("end", opened=opened)
        return ends

    def _for(self) -> bool:
        opened = self._next()
        names = [self._name()]
        if self._accept("="):
            self._expressions()
        else:
            while self._accept(","):
                names.append(self._name())
            self._expect("in")
            start = self._now.start
            self._expressions()
            self._edits.iterate(start, self._before.end)
        self._expect("do")
        self._block(names=names)
        self._expect("end", opened=opened)
        return False

    def _repeat(self) -> bool:
        opened = self._next()
        outer = self._scope
        ends = self._block()
        self._expect("until", opened=opened)
        self._expression()
        self._scope = outer
        return ends

    def _break(self) -> bool:
        self._next()
        return False

    def _goto(self) -> bool:
        self._portability.jump(self._next().line)
        self._name()
        return False

    def _function_statement(self) -> bool:
        self._next()
        line, name = self._now.line, self._name()
        plain, method = True, False
        while self._accept("."):
            self._name()
            plain = False
        if self._accept(":"):
            self._name()
            plain, method = False, True
        is_global = not self._scope.has(name)
        if plain and is_global:
            self._assigned.add(name)
        elif is_global:
            self._reads.append((line, name))
        function = self._function_body(line, method=method)
        if plain and is_global:
            self._record_function(name, line, function)
        return False

    def _record_function(self, name: str, line: int, function: FunctionInfo) -> None:
        if self._scope.function.top:
            self._functions[name] = function
        self._leaks.append((line, name, True))

    def _local(self) -> bool:
        self._next()
        if self._accept("function"):
            line, name = self._now.line, self._name()
            self._scope.names.add(name)
            self._function_body(line)
            return False
        names = [self._name()]
        while self._accept(","):
            names.append(self._name())
        if self._accept("="):
            self._expressions()
        self._scope.names.update(names)
        return False

    def _expression_statement(self) -> bool:
        first = self._now
        target = self._suffixed()
        targets = [target.what]
        if not self._is("=", ","):
            if target.what != "call":
                raise LuaSyntaxError(f"'=' or a call is expected near {self._now.text!r}", self._now.line)
            return first.text == "error" and not self._scope.has("error")
        names = [(first.line, first.text)] if target.what == "name" else []
        while self._accept(","):
            token = self._now
            targets.append(self._suffixed().what)
            if targets[-1] == "name":
                names.append((token.line, token.text))
        if "call" in targets:
            raise LuaSyntaxError("a call cannot be assigned to", self._now.line)
        self._expect("=")
        value = self._now
        self._values(names, single=len(targets) == 1)
        if target.brackets is not None and len(targets) == 1 and self._before is value and value.text == "nil":
            self._edits.clear(first.start, target.brackets, value.end)
        return False

    def _values(self, names: list[tuple[int, str]], *, single: bool) -> None:
        """Read the right side of an assignment, which sets the globals among ``names``."""
        unbound = [(line, name) for line, name in names if not self._scope.has(name)]
        self._assigned.update(name for _, name in unbound)
        start = self._now.start
        self._expressions()
        function = self._bodies.get((start, self._before.end))
        if function is not None and single and unbound:
            self._record_function(unbound[0][1], unbound[0][0], function)
        else:
            self._leaks.extend((line, name, False) for line, name in unbound)

    def _function_body(self, line: int, *, method: bool = False) -> FunctionInfo:
        opened = self._expect("(")
        parameters = list[str]()
        vararg = False
        while not self._is(")"):
            if self._accept("..."):
                vararg = True
                break
            parameters.append(self._name())
            if not self._accept(","):
                break
        self._expect(")", opened=opened)
        names = (*parameters, *(("self",) if method else ()), *(("arg",) if vararg else ()))
        function = FunctionScope(top=False, vararg=vararg, returned=[])
        returns = self._block(names=names, function=function)
        self._expect("end", opened=Token("keyword", "function", 0, 0, line))
        return FunctionInfo(line, returns, tuple(function.returned))
