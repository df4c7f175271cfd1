"""Parses the expressions of a script of Lua 5.1.

Sources: Lua 5.1 reference manual, 2.8 (the grammar); docs/lua.md.
"""

import abc
from typing import Final, Literal, NamedTuple

from fleethook.engines.interpret.lua.script_scanner_and_rewriter import (
    Cursor,
    LuaSyntaxError,
    Operand,
    OperandKind,
    Rewriter,
    Token,
    apply_binary,
    apply_unary,
)
from fleethook.engines.interpret.lua.script_warnings import Portability

BINARY: Final = {
    "or": (1, 1), "and": (2, 2),
    "<": (3, 3), ">": (3, 3), "<=": (3, 3), ">=": (3, 3), "~=": (3, 3), "==": (3, 3),
    "..": (5, 4), "+": (6, 6), "-": (6, 6), "*": (7, 7), "/": (7, 7), "%": (7, 7), "^": (10, 9),
}  # fmt: skip
"""Binding powers of an operator: left, right."""
UNARY: Final = 8
"""Binding power of ``not``, ``-`` and ``#``."""


class FunctionInfo(NamedTuple):
    """A function that the top level defines."""

    line: int
    returns: bool
    """Whether every path returns a value or raises an error."""
    returned: tuple[int, ...]
    """The lines of its return statements."""


class _Suffixed(NamedTuple):
    """A variable or a call."""

    what: Literal["name", "index", "call", "other"]
    name: str = ""
    """Its name in messages."""
    kind: Literal["double", "text", "other"] = "other"
    brackets: tuple[Token, Token] | None = None
    """The brackets around its last key, unless the key is a string literal."""


class Scope:
    """The locals of a block and of its outer blocks."""

    def __init__(self, outer: "Scope | None", *, function: "FunctionScope") -> None:
        self.outer: Final = outer
        self.function: Final = function
        self.names: Final[set[str]] = set()

    def has(self, name: str) -> bool:
        """Return whether a name is a local here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.outer
        return False


class FunctionScope(NamedTuple):
    """The function whose body the parser reads."""

    top: bool
    vararg: bool
    returned: list[int]
    """The lines of its return statements so far."""


class ExpressionParser(Cursor, abc.ABC):
    """Parses expressions, and collects edits, unportable code, and the globals that they read."""

    def __init__(self, source: str, max_depth: int) -> None:
        super().__init__(source)
        self._max_depth: Final = max_depth
        self._edits: Final = Rewriter(source)
        self._portability: Final = Portability()
        self._reads: Final[list[tuple[int, str]]] = []
        self._bodies: Final[dict[tuple[int, int], FunctionInfo]] = {}
        self._scope = Scope(None, function=FunctionScope(top=True, vararg=False, returned=[]))
        self._depth = 0

    @abc.abstractmethod
    def _function_body(self, line: int, *, method: bool = False) -> FunctionInfo:
        """Read parameters and statements of a function: statements are above expressions."""

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > self._max_depth:
            raise LuaSyntaxError(f"nested more than {self._max_depth} deep", self._now.line)

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
        content = {"empty": empty, "computed": computed or (holes and bool(keys))}
        self._edits.table(opened, end, keys, **content, holes=elements if holes else 0)
