"""Reads the tokens of a script one after another; an unexpected token raises Lua's error."""

from typing import Final

from fleethook.engines.interpret.lua.syntax.lexer import LuaSyntaxError, Token, scan_tokens
from fleethook.engines.interpret.lua.syntax.rewriter import PREFIX


class Cursor:
    """A position in the tokens of a script; the parser derives from it."""

    def __init__(self, source: str) -> None:
        self._tokens: Final = scan_tokens(source)
        self._before: Token = Token("end", "", 0, 0, 1)
        self._now: Token = next(self._tokens)
        self._ahead: Token | None = None

    def _next(self) -> Token:
        token, self._before = self._now, self._now
        if self._ahead is not None:
            self._now, self._ahead = self._ahead, None
        else:
            self._now = next(self._tokens)
        return token

    def _peek(self) -> Token:
        if self._ahead is None:
            self._ahead = next(self._tokens, self._now)
        return self._ahead

    def _is(self, *texts: str) -> bool:
        return self._now.kind in ("operator", "keyword") and self._now.text in texts

    def _accept(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._next()
        return True

    def _expect(self, text: str, *, opened: Token | None = None) -> Token:
        if not self._is(text):
            hint = f" (to close {opened.text!r} of line {opened.line})" if opened is not None else ""
            raise LuaSyntaxError(f"{text!r} expected{hint} near {self._now.text!r}", self._now.line)
        return self._next()

    def _name(self) -> str:
        if self._now.kind != "name":
            raise LuaSyntaxError(f"a name is expected near {self._now.text!r}", self._now.line)
        if self._now.text.startswith(PREFIX):
            raise LuaSyntaxError(f"names that begin with {PREFIX} are reserved", self._now.line)
        return self._next().text

    def _unexpected(self) -> LuaSyntaxError:
        return LuaSyntaxError(f"unexpected symbol near {self._now.text!r}", self._now.line)
