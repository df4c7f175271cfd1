"""Answers a question of the playground in this process, by the chain that the server asks."""

import re
import time
from types import ModuleType
from typing import Final

from app.interpret.access import InterpretError
from app.interpret.chain import Chain, Explained, Layer, PythonLayer
from app.interpret.fixtures import FixtureError, name_results
from app.interpret.lua.layer import LuaLayer, index_rules
from app.interpret.lua.rules import Rule, list_findings, list_unportable, read_customization
from app.interpret.lua.runner import Call, Runner
from app.interpret.lua.vm import Machine, Usage
from app.interpret.playground.export import ExportError, ask_question, build_customization
from app.interpret.playground.question import PlaygroundAnswer, PlaygroundQuestion, refuse
from app.interpret.python_interpreter import Interpreter
from app.interpret.question import Question
from app.model.json import JSON

PYTHON_NAME: Final = "playground.py"
"""The file name of Python scripts in messages."""

_LINE: Final = re.compile(r"(?:\ALua script error: line |/[A-Za-z]+:|\Aplayground\.py:)([0-9]+):")
"""A place in the three forms that problems of rules, errors of Lua scripts and errors of Python scripts have."""
_MAX_LISTED: Final = 20


class _MeasuredRunner(Runner):
    """Runs scripts with their full limits on this thread, and keeps the resources that the last call used."""

    def __init__(self) -> None:
        """Prepare with the limits of the server."""
        super().__init__()
        self._measured: Final = Machine()
        self.usage: Usage | None = None
        self.lines: tuple[str, ...] = ()

    def run(self, call: Call, *, at_once: bool = True) -> list[JSON]:
        """Return the results of a script's function; raises LuaError."""
        del at_once
        machine = self._measured
        try:
            return machine.call(
                call.program, call.function, call.documents, call.numbers, results=call.results, limits=self.limits,
                with_globals=call.with_globals, references=call.references,
            )  # fmt: skip
        finally:
            self.usage, self.lines = machine.usage(), tuple(machine.printed())


def answer_question(question: PlaygroundQuestion) -> PlaygroundAnswer:
    """Return the answer of a script. Only Lua is confined by itself: run Python in a confined process."""
    try:
        asked = ask_question(question)
        return _answer_lua(question, asked) if question.language == "lua" else _answer_python(question, asked)
    except (FixtureError, ExportError) as error:
        return refuse("input", str(error))


def _answer_lua(question: PlaygroundQuestion, asked: Question) -> PlaygroundAnswer:
    found = read_customization(build_customization(question))
    if found.problems:
        text = found.problems[0].text
        return refuse("script", text, line=find_line(text))
    runner = _MeasuredRunner()
    layer = LuaLayer("lua", lambda: index_rules(found.rules), runner, observe=_ignore)
    answer = _ask(layer, asked)
    usage = runner.usage or Usage(0, 0)
    warnings = tuple(text for rule in found.rules for text in _list_warnings(rule))[:_MAX_LISTED]
    return PlaygroundAnswer(
        answer.results, answer.reason, answer.error, answer.line, answer.seconds, usage.instructions, usage.memory,
        runner.lines, warnings,
    )  # fmt: skip


def _list_warnings(rule: Rule) -> tuple[str, ...]:
    return (*list_findings(rule), *list_unportable(rule))


def _answer_python(question: PlaygroundQuestion, asked: Question) -> PlaygroundAnswer:
    module = ModuleType("playground")
    try:
        exec(compile(question.code, PYTHON_NAME, "exec"), module.__dict__)  # noqa: S102 - the process is confined
    except SyntaxError as error:
        return refuse("script", f"{PYTHON_NAME}:{error.lineno or 1}: {error.msg}", line=error.lineno or 1)
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001 - a script may raise anything, for example SystemExit
        line = _find_top_line(error)
        return refuse("script", f"{PYTHON_NAME}:{line}: {type(error).__name__}: {error}", line=line)
    found = [value for value in vars(module).values() if isinstance(value, Interpreter)]
    if not found:
        return refuse("script", "the script defines no interpreter: create one with `interpreter(apiVersion, kind)`")
    if not any(one.kind == asked.kind and asked.operation in one.functions for one in found):
        kind = f"{asked.kind.api_version} {asked.kind.kind}"
        return refuse("script", f"the script has no function for {asked.operation} of {kind}")
    return _ask(PythonLayer(found), asked)


def _find_top_line(error: BaseException) -> int:
    """Return the last line of the script in the traceback of an error of its top level."""
    lines, frame = [1], error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == PYTHON_NAME:
            lines.append(frame.tb_lineno)
        frame = frame.tb_next
    return lines[-1]


def _ask(layer: Layer, asked: Question) -> PlaygroundAnswer:
    started = time.perf_counter()
    try:
        explained = Chain([layer]).begin(asked)
    except InterpretError as error:
        return PlaygroundAnswer(
            reason="script", error=str(error), line=find_line(str(error)), seconds=time.perf_counter() - started
        )
    assert isinstance(explained, Explained)  # neither layer waits
    seconds = time.perf_counter() - started
    return PlaygroundAnswer(name_results(asked, explained.answer), seconds=seconds)


def find_line(message: str) -> int:
    """Return the line of the script that a message names first, 0 if it names none."""
    found = _LINE.search(message)
    return int(found[1]) if found else 0


def _ignore(name: str, outcome: str, seconds: float) -> None:
    """Drop a measurement: the playground has no metrics."""
    del name, outcome, seconds
