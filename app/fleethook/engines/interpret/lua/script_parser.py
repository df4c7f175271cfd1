"""Parses a script of Lua 5.1: finds its functions and suspicious code, and rewrites it for Lua 5.4.

Sources: Lua 5.1 reference manual, 2.8 (the grammar); karmada v1.16
pkg/resourceinterpreter/customized/declarative/luavm.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from fleethook.engines.interpret.lua.portability import Portability, ScriptWarning
from fleethook.engines.interpret.lua.script_rewriter import (
    BINARY,
    UNARY,
    Cursor,
    LuaSyntaxError,
    Operand,
    OperandKind,
    Rewriter,
    Token,
    apply_binary,
    apply_unary,
)

MAX_DEPTH: Final = 150


class Script(NamedTuple):
    """A parsed script."""

    runnable: str
    """The script rewritten for Lua 5.4, with the same lines."""
    functions: dict[str, "FunctionInfo"]
    """The global functions that its top level defines."""
    findings: list[ScriptWarning]
    assigned: frozenset[str]
    """The globals that it sets, at any place."""
    portability: list[ScriptWarning]
    """Code that does not run in Karmada."""
    reads: dict[str, int]
    """The globals that it reads, each with its first line."""


class FunctionInfo(NamedTuple):
    """A function that the top level defines."""

    line: int
    returns: bool
    """Whether every path returns a value or raises an error."""


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


class _Suffixed(NamedTuple):
    """A variable or a call."""

    what: Literal["name", "index", "call", "other"]
    name: str = ""
    """Its name in messages."""
    kind: Literal["double", "text", "other"] = "other"
    brackets: tuple[Token, Token] | None = None
    """The brackets around its last key, unless the key is a string literal."""


class _Scope:
    """The locals of a block and of its outer blocks."""

    def __init__(self, outer: "_Scope | None", *, function: "_Function") -> None:
        self.outer: Final = outer
        self.function: Final = function
        self.names: Final[set[str]] = set()

    def has(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.outer
        return False


class _Function(NamedTuple):
    """The function whose body the parser reads."""

    top: bool
    vararg: bool


class _Parser(Cursor):
    """A recursive descent parser that collects edits and findings."""

    def __init__(self, source: str, known: frozenset[str]) -> None:
        super().__init__(source)
        self._known: Final = known
        self._edits: Final = Rewriter(source)
        self._portability: Final = Portability()
        self._depth = 0
        self._functions: Final[dict[str, FunctionInfo]] = {}
        self._assigned: Final[set[str]] = set()
        self._reads: Final[list[tuple[int, str]]] = []
        self._leaks: Final[list[tuple[int, str, bool]]] = []
        self._bodies: Final[dict[tuple[int, int], FunctionInfo]] = {}
        self._scope = _Scope(None, function=_Function(top=True, vararg=False))

    def script(self) -> Script:
        self._block()
        if self._now.kind != "end":
            raise self._unexpected()
        portability = list(self._portability.findings())
        findings = list(self._list_findings())
        reads = {name: line for line, name in reversed(self._reads)}
        return Script(self._edits.text(), self._functions, findings, frozenset(self._assigned), portability, reads)

    def _list_findings(self) -> Iterator[ScriptWarning]:
        seen = set[str]()
        for line, name, is_function in self._leaks:
            if name in seen:
                continue
            seen.add(name)
            what = f"function {name} is global" if is_function else f"{name} is set as a global"
            yield ScriptWarning(line, f"{what}: declare it `local`, because Karmada may keep globals for other calls")
        for line, name in self._reads:
            if name not in self._assigned and name not in self._known and name not in seen:
                seen.add(name)
                yield ScriptWarning(line, f"{name} is undefined: the script reads a global that nothing sets")

    # Blocks and statements. Each method returns whether the code always ends with a return or an error.

    def _block(self, *, names: Sequence[str] = (), function: _Function | None = None) -> bool:
        self._enter()
        outer = self._scope
        self._scope = _Scope(outer, function=function or outer.function)
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

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise LuaSyntaxError(f"nested more than {MAX_DEPTH} deep", self._now.line)

    def _return(self) -> bool:
        self._next()
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

    def _record_function(self, name: str, line: int, function: "FunctionInfo") -> None:
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

    # Expressions.

    def _expressions(self) -> None:
        self._expression()
        while self._accept(","):
            self._expression()

    def _expression(self, limit: int = 0) -> Operand:
        self._enter()
        if self._is("not", "-", "#"):
            operator = self._next()
            found = apply_unary(self._edits, operator, self._expression(UNARY))
        else:
            found = self._simple()
        while self._now.kind in ("operator", "keyword") and self._now.text in BINARY:
            left, right = BINARY[self._now.text]
            if left <= limit:
                break
            found = apply_binary(self._edits, found, self._next(), self._expression(right))
        self._depth -= 1
        return found

    def _simple(self) -> Operand:
        token = self._now
        kind: OperandKind = "other"
        name = ""
        if token.kind == "number":
            self._edits.number(self._next())
            return Operand("literal", token.start, token.end, token)
        if token.kind == "string":
            self._edits.string(self._next())
            self._portability.literal(token.text, token.line)
            kind = "text"
        elif self._is("nil", "true", "false"):
            self._next()
        elif self._is("..."):
            if not self._scope.function.vararg:
                raise LuaSyntaxError("cannot use '...' outside a vararg function", token.line)
            self._next()
        elif self._is("{"):
            self._constructor()
        elif self._is("function"):
            self._next()
            function = self._function_body(token.line)
            self._bodies[token.start, self._before.end] = function
        else:
            found = self._suffixed()
            kind, name = found.kind, found.name
        return Operand(kind, token.start, self._before.end, name=name)

    def _suffixed(self) -> _Suffixed:
        """Read a variable or a call."""
        first = self._now
        found = self._primary()
        library = first.text if found.name.startswith(" (global") else ""
        while True:
            token = self._now
            name = self._before.text
            if self._accept("."):
                member = self._name()
                found = _Suffixed("index", f" (field '{member}')")
                self._portability.field(f"{library}.{member}", token.line)
            elif self._is("["):
                found = self._bracketed()
            elif self._accept(":"):
                name = self._name()
                self._portability.method(name, token.line)
                self._arguments(name)
                found = _Suffixed("call")
            elif self._is("(", "{") or self._now.kind == "string":
                self._arguments(name)
                found = _Suffixed("call")
            else:
                return found
            library = ""

    def _primary(self) -> _Suffixed:
        if self._now.kind == "name":
            line, name = self._now.line, self._name()
            if self._scope.has(name):
                return _Suffixed("name", f" (local '{name}')")
            self._reads.append((line, name))
            return _Suffixed("name", f" (global '{name}')")
        if not self._is("("):
            raise self._unexpected()
        opened = self._next()
        inner = self._expression()
        self._expect(")", opened=opened)
        return _Suffixed("other", kind="other" if inner.kind == "literal" else inner.kind)

    def _bracketed(self) -> _Suffixed:
        opened = self._next()
        key = self._now
        self._expression()
        literal = self._before is key and key.kind == "string"
        closed = self._expect("]", opened=opened)
        return _Suffixed("index", brackets=None if literal else (opened, closed))

    def _arguments(self, name: str) -> None:
        """Read the arguments of a call of the function or method with this name."""
        opened = first = self._now
        if self._now.kind == "string":
            self._edits.string(self._next())
        elif self._is("{"):
            self._constructor()
            self._edits.wrap(opened.start, self._before.end, "(", ")")
        else:
            self._expect("(")
            first = self._now
            if not self._is(")"):
                self._expressions()
            last = self._before.end
            self._expect(")", opened=opened)
            argument = first.text if first.kind == "string" else ""
            self._portability.call(name, argument, (last, self._before.end), opened.line)
            return
        argument = first.text if first.kind == "string" else ""
        self._portability.call(name, argument, (-1, self._before.end), opened.line)

    def _constructor(self) -> None:
        opened = self._next()
        keys: list[str] = []
        empty, computed, holes, elements = True, False, False, 0
        while not self._is("}"):
            empty = False
            if self._is("["):
                bracket = self._next()
                key = self._now
                self._expression()
                if self._before is key and key.kind in ("string", "number"):
                    keys.append(key.text)
                computed |= self._before is not key or key.kind != "string"
                self._expect("]", opened=bracket)
                self._expect("=")
            elif self._now.kind == "name" and self._peek().text == "=" and self._peek().kind == "operator":
                keys.append(f'"{self._name()}"')
                self._next()
            else:
                elements += 1
                holes |= self._now.text == "nil"
            self._expression()
            if not (self._accept(",") or self._accept(";")):
                break
        end = self._expect("}", opened=opened).end
        told = {"empty": empty, "computed": computed or (holes and bool(keys))}
        self._edits.table(opened, end, keys, **told, holes=elements if holes else 0)

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
        returns = self._block(names=names, function=_Function(top=False, vararg=vararg))
        self._expect("end", opened=Token("keyword", "function", 0, 0, line))
        return FunctionInfo(line, returns)
