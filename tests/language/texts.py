"""Reads the English of the repository: docstrings, comments, help, messages, Markdown and comments of templates."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["comment", "docstring", "help", "message", "prose"]

HELP_KEYWORDS = frozenset({"help", "short_help", "epilog", "description", "documentation"})
METRIC_TYPES = frozenset({"Counter", "Gauge", "Histogram", "Summary", "Info"})
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
DIRECTIVE = re.compile(r"(noqa|type:|pragma|fmt:|ruff:|mypy:|go:build|!)")
SUFFIXES = frozenset({".go", ".md", ".py", ".toml", ".tpl", ".yaml", ".yml"})
NAMES = frozenset({"Makefile", "Dockerfile", "run"})  # files with comments after # and without a suffix
TEMPLATE_COMMENT = re.compile(r"\{\{-?\s*/\*(.*?)\*/", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One continuous text.

    Attributes:
        path: its file.
        line: its first line, from 1.
        kind: its purpose.
        words: the text; every inserted value and every piece of code is the word `X`.
    """

    path: Path
    line: int
    kind: Kind
    words: str


def read_texts(path: Path) -> Iterator[Text]:
    """Yield the texts of a file in an unspecified order; a file of another type has none."""
    if path.suffix not in SUFFIXES and path.name not in NAMES:
        return
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from read_python(path, content)
    elif path.suffix == ".md":
        yield from read_markdown(path, content)
    elif path.suffix != ".tpl":
        mark = "//" if path.suffix == ".go" else "#"
        yield from join_comments(path, number_lines(re.sub(rf"^(\s*){mark}", r"\1#", content, flags=re.MULTILINE)))
    if path.suffix in {".tpl", ".yaml"}:
        yield from read_templates(path, content)
    if path.name == "Makefile":
        yield from read_targets(path, content)


def read_templates(path: Path, content: str) -> Iterator[Text]:
    """Yield the comments of a Go template."""
    for comment in TEMPLATE_COMMENT.finditer(content):
        line = content.count("\n", 0, comment.start()) + 1
        yield Text(path=path, line=line, kind="comment", words=clean(comment[1]))


def read_targets(path: Path, content: str) -> Iterator[Text]:
    """Yield the help texts of the targets of a Makefile."""
    for number, line in number_lines(content):
        if "## " in line:
            yield Text(path=path, line=number, kind="help", words=clean(line.partition("## ")[2]))


def number_lines(content: str) -> list[tuple[int, str]]:
    """Return the lines of a file without their indentation, with their numbers."""
    return list(enumerate(map(str.strip, content.splitlines()), start=1))


def read_python(path: Path, content: str) -> Iterator[Text]:
    """Yield comments, docstrings, help texts and messages of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    yield from join_comments(
        path, [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    )
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from read_docstring(path, node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from read_arguments(path, "message", node.exc.args + [keyword.value for keyword in node.exc.keywords])
        elif isinstance(node, ast.Call):
            yield from read_call(path, node)


def read_docstring(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Text]:
    """Yield the paragraphs of a docstring, and each line of its sections."""
    docstring = ast.get_docstring(node, clean=True)
    if docstring is None:
        return
    start = 0
    for separator in [*re.finditer(r"\n\s*\n|\n(?=\s*[\w`*]+:\s)|\n(?=\s*[-*] )", docstring), None]:
        part = docstring[start : separator.start() if separator else None]
        # The name in `name: text` and the mark of a list are not part of the sentence.
        words = re.sub(r"^\s*(?:[-*] |[\w`*]+:\s)", "", part) if start else part
        line = node.body[0].lineno + docstring.count("\n", 0, start)
        yield Text(path=path, line=line, kind="docstring", words=clean(words))
        start = separator.end() if separator else 0


def read_call(path: Path, node: ast.Call) -> Iterator[Text]:
    """Yield the help texts among the arguments of a call, and the message of a log call."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    yield from read_arguments(path, "help", [word.value for word in node.keywords if word.arg in HELP_KEYWORDS])
    if name in METRIC_TYPES:
        yield from read_arguments(path, "help", node.args[1:2])
    if name in LOG_METHODS and isinstance(node.func, ast.Attribute):
        yield from read_arguments(path, "message", node.args[:1])


def read_arguments(path: Path, kind: Kind, arguments: list[ast.expr]) -> Iterator[Text]:
    """Yield the arguments that are text."""
    for argument in arguments:
        words = read_string(argument)
        if words:
            yield Text(path=path, line=argument.lineno, kind=kind, words=clean(words))


def read_string(node: ast.expr) -> str:
    """Return the text of a literal, an f-string or a sum of both; "" for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(read_string(part) or "X" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return read_string(node.left) + read_string(node.right)
    return ""


def read_markdown(path: Path, content: str) -> Iterator[Text]:
    """Yield paragraphs, list items and table cells; headings and code have no sentences."""
    content = re.sub(
        r"^ *(```|~~~).*?^ *\1", lambda code: "\n" * code[0].count("\n"), content, flags=re.DOTALL | re.MULTILINE
    )
    content = re.sub(r"(?<=\n\n)(?: {4}.*\n)+(?=\n|\Z)", lambda code: "\n" * code[0].count("\n"), content)
    line = 1
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.|\||#)\s))", content):
        if not block.lstrip().startswith("#"):
            start = line + len(block) - len(block.lstrip("\n"))
            for cell in block.split("|") if block.lstrip().startswith("|") else [block]:
                yield Text(path=path, line=start, kind="prose", words=clean(re.sub(r"^\s*(?:[-*+]|\d+\.)\s", "", cell)))
        line += block.count("\n")


def join_comments(path: Path, lines: list[tuple[int, str]]) -> Iterator[Text]:
    """Join the comments of consecutive lines.

    Args:
        path: their file.
        lines: number and content of each line; lines that do not start with `#` separate comments.
    """
    start, last, words = 0, 0, ""
    for number, line in [*lines, (0, "#!")]:
        is_comment = line.startswith("#") and not DIRECTIVE.match(line.lstrip("# "))
        if words and (number != last + 1 or not is_comment):
            yield Text(path=path, line=start, kind="comment", words=clean(words))
            words = ""
        if is_comment:
            start = start if words else number
            words += f"{line.lstrip('#').strip()}\n"
            last = number


def clean(words: str) -> str:
    """Replace code by `X`, drop marks of Markdown and fold white space."""
    words = re.sub(r"``.+?``|`[^`]+`", "X", words, flags=re.DOTALL)
    words = re.sub(r"\]\([^)]*\)", "]", words)
    return " ".join(re.sub(r"[*\[\]]", "", words).split())
