"""The process of the playground: ``python -m app.interpret.playground.process``.

It reads one question from standard input, confines itself, and writes the answer to standard output. A process answers
only one question, so that no script sees the inputs of another.
"""

import ast
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Final, NoReturn

import msgspec

from app.interpret.playground.answering import answer_question
from app.interpret.playground.confinement import MAX_MEMORY_BYTES, confine
from app.interpret.playground.question import Language, PlaygroundAnswer, PlaygroundQuestion, refuse
from app.interpret.playground.system_call_filter import FilterError

MODULE: Final = "app.interpret.playground.process"

MODULES: Final = (
    "base64", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fleethook", "fleethook.interpret",
    "fleethook.model", "fleethook.patch", "fractions", "functools", "hashlib", "itertools", "json", "math", "operator",
    "re", "statistics", "string", "textwrap", "typing",
)  # fmt: skip
"""The modules that a script in Python can import."""

_OBJECT: Final = {"apiVersion": "v1", "kind": "Start", "metadata": {"name": "start"}}
_STARTS: Final[dict[Language, str]] = {
    "lua": "function InterpretHealth(obj) print(obj.kind) return true end",
    "python": "raise ValueError",
}


def main() -> NoReturn:
    """Answer the question on standard input."""
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=PlaygroundQuestion)
    _load(question)
    try:
        confine(question.language)
        answer = _answer(question)
    except FilterError as error:
        answer = refuse("isolation", f"this machine cannot isolate scripts in {question.language}: {error}")
    _write(answer)
    os._exit(0)  # a script may have registered functions for the end of the interpreter


def _load(question: PlaygroundQuestion) -> None:
    """Load all code that the answer needs, because no file can be opened later."""
    for name in find_imports(question.code) if question.language == "python" else ():
        importlib.import_module(name)
    answer_question(
        PlaygroundQuestion(question.language, _STARTS[question.language], "InterpretHealth", desired=_OBJECT)
    )


def find_imports(code: str) -> Iterator[str]:
    """Yield the modules of `MODULES` that a script imports; the import of any other module fails later."""
    try:
        statements = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the answer has the error
    for one in statements:
        names = [alias.name for alias in one.names] if isinstance(one, ast.Import) else []
        if isinstance(one, ast.ImportFrom) and one.module and not one.level:
            names = [one.module]
        yield from (name for name in names if name in MODULES)


def _answer(question: PlaygroundQuestion) -> PlaygroundAnswer:
    try:
        return answer_question(question)
    except MemoryError:
        return refuse("limit", f"the script takes more than {MAX_MEMORY_BYTES >> 20} MiB")
    except RecursionError:
        return refuse("limit", "the script, or a value that it returns, is nested too deeply")


def _write(answer: PlaygroundAnswer) -> None:
    try:
        encoded = msgspec.json.encode(answer)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        encoded = msgspec.json.encode(refuse("script", f"the result is not JSON: {error}"))
    view = memoryview(encoded)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
