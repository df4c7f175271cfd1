"""The list of the errors in an expression that does not compile, with their places, as kube-apiserver shows it."""

from typing import Final

_MAX_ERRORS: Final = 100
_MAX_SNIPPET: Final = 16384


class ExpressionError(ValueError):
    """An expression does not compile, or its type is not bool; the text is kube-apiserver's."""


class SourceErrors:
    """The errors of one expression."""

    def __init__(self, expression: str) -> None:
        self._lines: Final = expression.split("\n")
        self._found: Final[list[tuple[int, int, str]]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, offset: int, text: str) -> None:
        """Add an error at a position, in characters."""
        line = 0
        while line + 1 < len(self._lines) and offset > len(self._lines[line]):
            offset -= len(self._lines[line]) + 1
            line += 1
        self._found.append((line, offset, text))

    def add_without_place(self, text: str) -> None:
        """Add an error about the whole expression."""
        self._found.append((-2, -1, text))

    def format(self) -> str:
        """Return the errors in the order of their places, each with its line and a mark."""
        ordered = sorted(self._found[:_MAX_ERRORS], key=lambda error: error[:2])
        rest = len(self._found) - len(ordered)
        return "\n".join([*map(self._format, ordered), *([f"{rest} more errors were truncated"] if rest else [])])

    def _format(self, error: tuple[int, int, str]) -> str:
        line, column, text = error
        shown = f"ERROR: <input>:{line + 1}:{column + 1}: {text}"
        if not 0 <= line < len(self._lines) or len(self._lines[line]) > _MAX_SNIPPET:
            return shown
        snippet = self._lines[line].replace("\t", " ")
        dots = "".join("." if character < "\x80" else "\uff0e" for character in snippet[:column])
        mark = "\uff3e" if snippet[column : column + 1] >= "\x80" else "^"
        return f"{shown}\n | {snippet}\n | {dots}{mark}"
