"""Parses expressions (cel-go: parser/gen/CEL.g4, parser/parser.go).

The parser descends by precedence with three calls for each level of nesting, so that cel-go's limit of 250 levels fits
into Python's stack.
"""

import re
from typing import Final, NamedTuple

from fleethook.cel.compile_error_list import SourceErrors
from fleethook.cel.parse.macros import MACROS, MacroError
from fleethook.cel.parse.syntax_tree import (
    LITERAL_READERS,
    Call,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Node,
    Select,
)

MAX_DEPTH: Final = 250
_STRING: Final = (
    r"[rR]\"\"\"[\s\S]*?\"\"\"|[rR]'''[\s\S]*?'''|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*'"
    r"|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''"
    r"|\"(?:\\.|[^\\\"\n\r])*\"|'(?:\\.|[^\\'\n\r])*'"
)
_TOKEN: Final = re.compile(
    rf"""(?P<space>(?:[\t \r\n\f]+|//[^\n]*)+)
    |(?P<bytes>[bB](?:{_STRING}))
    |(?P<string>{_STRING})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<escaped>`[A-Za-z0-9_.\-/\x20]+`)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])""".replace("\n    ", ""),
)
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "null", "return", "true", "var", "void", "while"),
    )
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_KEYWORDS: Final = frozenset({*_WORDS, "in"})
_LEVELS: Final = {
    "||": 1, "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys("+-", 4), **dict.fromkeys("*/%", 5),
}  # fmt: skip
_LOGIC: Final = frozenset({"||", "&&"})
_OPERATORS: Final = {one: "@in" if one == "in" else f"_{one}_" for one in _LEVELS}


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


class _SyntaxError(Exception):
    """The parser cannot go on."""


def parse(expression: str, errors: SourceErrors) -> Node | None:
    """Return the syntax tree of an expression, with all macros expanded; None after errors."""
    try:
        tree = _Parser(_tokenize(expression, errors), errors).parse()
    except _SyntaxError:
        return None
    return None if errors else tree


def _tokenize(expression: str, errors: SourceErrors) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(expression):
        found = _TOKEN.match(expression, position)
        if found is None:
            errors.add(position, f"Syntax error: token recognition error at: '{expression[position]}'")
            raise _SyntaxError
        kind = str(found.lastgroup)
        if kind == "name" and found[0] in _KEYWORDS:
            kind = "operator" if found[0] == "in" else "word"
        if kind != "space":
            tokens.append(_Token(kind, found[0], position))
        position = found.end()
    tokens.append(_Token("end", "<EOF>", len(expression)))
    return tokens


class _Parser:
    """Parses one expression."""

    def __init__(self, tokens: list[_Token], errors: SourceErrors) -> None:
        self._tokens: Final = tokens
        self._errors: Final = errors
        self._position = 0
        self._depth = 0

    def parse(self) -> Node:
        """Return the tree of the whole expression."""
        node = self._parse_expression()
        if self._kind() != "end":
            raise self._reject("expecting <EOF>")
        return node

    def _kind(self) -> str:
        return self._tokens[self._position].kind

    def _offset(self) -> int:
        return self._tokens[self._position].offset

    def _take(self) -> _Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _skip(self, text: str) -> bool:
        """Skip an operator, and return whether it was there."""
        token = self._tokens[self._position]
        if token.kind == "operator" and token.text == text:
            self._position += 1
            return True
        return False

    def _expect(self, text: str) -> int:
        """Skip an operator and return its position."""
        offset = self._offset()
        if not self._skip(text):
            raise self._reject_end(text) if self._kind() == "end" else self._reject(f"expecting '{text}'")
        return offset

    def _reject_end(self, text: str) -> _SyntaxError:
        self._errors.add(self._offset(), f"Syntax error: missing '{text}' at '<EOF>'")
        return _SyntaxError()

    def _reject(self, expected: str) -> _SyntaxError:
        token = self._tokens[self._position]
        self._errors.add(token.offset, f"Syntax error: mismatched input '{token.text}' {expected}")
        return _SyntaxError()

    def _enter(self, problem: str = "max recursion depth exceeded") -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._errors.add_without_place(problem)
            raise _SyntaxError

    def _report(self, offset: int, text: str) -> Node:
        self._errors.add(offset, text)
        return Literal(offset, None)

    def _parse_expression(self) -> Node:
        self._enter(f"expression recursion limit exceeded: {MAX_DEPTH}")
        node = self._parse_binary(1)
        offset = self._offset()
        if self._skip("?"):
            yes = self._parse_binary(1)
            self._expect(":")
            node = Call(offset, "_?_:_", [node, yes, self._parse_expression()])
        self._depth -= 1
        return node

    def _parse_binary(self, level: int) -> Node:
        node = self._parse_operand()
        entered = 0
        while True:
            token = self._tokens[self._position]
            found = _LEVELS.get(token.text, 0) if token.kind == "operator" else 0
            if found < level:
                self._depth -= entered
                return node
            if token.text in _LOGIC:
                node = self._parse_logic(node, token.text)
                continue
            self._position += 1
            entered += 1
            self._enter()
            node = Call(token.offset, _OPERATORS[token.text], [node, self._parse_binary(found + 1)])

    def _parse_logic(self, first: Node, operator: str) -> Node:
        terms, offsets = [first], list[int]()
        while True:
            offset = self._offset()
            if not self._skip(operator):
                return _balance(_OPERATORS[operator], terms, offsets)
            offsets.append(offset)
            terms.append(self._parse_binary(_LEVELS[operator] + 1))

    def _parse_operand(self) -> Node:
        token = self._take()
        if token.kind == "operator" and token.text == "(":
            node = self._parse_expression()
            self._expect(")")
        elif token.kind == "operator" and token.text in {"!", "-"}:
            return self._parse_unary(token)
        else:
            node = self._parse_primary(token)
        entered = self._depth
        while True:
            offset = self._offset()
            if self._skip("."):
                self._enter()
                node = self._parse_member(node, offset)
            elif self._skip("["):
                self._enter()
                function = "_[?_]" if self._skip("?") else "_[_]"
                node = Call(offset, function, [node, self._parse_expression()])
                self._expect("]")
            else:
                self._depth = entered
                return node

    def _parse_unary(self, first: _Token) -> Node:
        following = self._tokens[self._position]
        if first.text == "-" and following.kind in {"int", "float"}:
            # The sign is a part of the literal, because -9223372036854775808 has no positive counterpart.
            self._position += 1
            self._tokens[self._position - 1] = _Token(following.kind, f"-{following.text}", first.offset)
            self._position -= 1
            return self._parse_operand()
        count = 1
        while self._skip(first.text):
            count += 1
        operand = self._take()
        if operand.text in {"!", "-"}:
            if operand.text == "!" or self._kind() not in {"int", "float"}:
                raise self._reject("expecting an operand")
            return self._finish_unary(first, count, self._parse_unary(operand))
        self._position -= 1
        return self._finish_unary(first, count, self._parse_operand())

    def _finish_unary(self, first: _Token, count: int, node: Node) -> Node:
        # An even number of signs has no effect.
        return node if count % 2 == 0 else Call(first.offset, f"{first.text}_", [node])

    def _parse_member(self, operand: Node, offset: int) -> Node:
        optional = self._skip("?")
        token = self._take()
        if token.kind == "escaped":
            return self._report(token.offset, "unsupported syntax: '`'")
        if token.kind != "name":
            self._position -= 1
            raise self._reject("expecting IDENTIFIER")
        if optional:
            return Call(offset, "_?._", [operand, Literal(token.offset, token.text)])
        opened = self._offset()
        if self._skip("("):
            return self._expand(opened, token.text, self._parse_list(")"), operand)
        return Select(offset, operand, token.text)

    def _parse_list(self, end: str) -> list[Node]:
        """Parse expressions up to a closing parenthesis."""
        if self._skip(end):
            return []
        nodes = [self._parse_expression()]
        while self._skip(","):
            nodes.append(self._parse_expression())
        self._expect(end)
        return nodes

    def _expand(self, offset: int, function: str, arguments: list[Node], target: Node | None = None) -> Node:
        macro = MACROS.get((function, len(arguments), target is not None))
        if macro is None:
            return Call(offset, function, arguments, target)
        try:
            return macro(offset, target or Literal(offset, None), arguments)
        except MacroError as error:
            return self._report(error.offset, str(error))

    def _parse_primary(self, token: _Token) -> Node:
        if token.kind == "name":
            return self._parse_name(token, "")
        if token.kind == "word":
            return Literal(token.offset, _WORDS[token.text])
        if token.kind in LITERAL_READERS:
            return self._parse_literal(token)
        match token.text if token.kind == "operator" else "":
            case "[":
                return self._parse_elements(token.offset)
            case "{":
                return MapLiteral(token.offset, self._parse_entries())
            case "." if self._kind() == "name":
                return self._parse_name(self._take(), ".")
        self._position -= 1
        raise self._reject("expecting an expression")

    def _parse_name(self, token: _Token, dot: str) -> Node:
        if self._kind() == "operator" and self._tokens[self._position].text == "{":
            raise self._reject("expecting an operator: literals of messages are not supported")
        opened = self._offset()
        called = self._skip("(")
        arguments = self._parse_list(")") if called else []
        if token.text in _RESERVED:
            return self._report(token.offset, f"reserved identifier: {token.text}")
        if called:
            return self._expand(opened, dot + token.text, arguments)
        return Ident(token.offset, dot + token.text)

    def _parse_elements(self, offset: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._skip_end("]", after_comma=bool(elements)):
            if self._skip("?"):
                optional.add(len(elements))
            elements.append(self._parse_expression())
        return ListLiteral(offset, elements, frozenset(optional))

    def _parse_entries(self) -> list[MapEntry]:
        entries: list[MapEntry] = []
        while not self._skip_end("}", after_comma=bool(entries)):
            optional = self._skip("?")
            key = self._parse_expression()
            colon = self._expect(":")
            entries.append(MapEntry(colon, key, self._parse_expression(), optional=optional))
        return entries

    def _skip_end(self, end: str, *, after_comma: bool) -> bool:
        """Skip the end of a literal, with a comma before it, or the comma between two elements."""
        if not self._skip(","):
            if self._skip(end):
                return True
            if after_comma:
                self._expect(end)
            return False
        if self._kind() == "end":
            raise self._reject_end(end)
        if after_comma and not self._skip(end):
            return False
        if not after_comma:
            self._expect(end)
        return True

    def _parse_literal(self, token: _Token) -> Node:
        try:
            return Literal(token.offset, LITERAL_READERS[token.kind](token.text))
        except ValueError as error:
            return self._report(token.offset, str(error))


def _balance(operator: str, terms: list[Node], offsets: list[int]) -> Node:
    """Return a balanced tree of ``&&`` or ``||``, so that long conditions are not deep (cel-go: logicManager)."""

    def build(low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else build(low, middle - 1)
        right = terms[middle + 1] if middle == high else build(middle + 1, high)
        return Call(offsets[middle], operator, [left, right])

    return build(0, len(offsets) - 1) if offsets else terms[0]
