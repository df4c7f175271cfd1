"""Answers a question of the playground by the chain that the server asks, with the limits of the server's scripts."""

import re
import time
from typing import Final

import msgspec

from fleethook.engines.interpret.chain import Chain, Explained, Layer
from fleethook.engines.interpret.fixtures import FixtureError, name_results
from fleethook.engines.interpret.lua.layer import LuaLayer, index_rules
from fleethook.engines.interpret.lua.rules import Rule, list_findings, list_unportable, read_customization
from fleethook.engines.interpret.lua.runner import Call, Runner
from fleethook.engines.interpret.lua.vm import Machine, Usage
from fleethook.engines.interpret.playground.export import ExportError, ask_question, build_customization
from fleethook.engines.interpret.playground.question import PlaygroundAnswer, PlaygroundQuestion, refuse
from fleethook.interpret.question import Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.json import JSON

_LINE: Final = re.compile(r"(?:\ALua script error: line |/[A-Za-z]+:)([0-9]+):")
"""A place in the two forms that problems of rules and errors of scripts have."""
MAX_RESULT_BYTES: Final = 4 << 20
"""Bytes of a result as JSON. Results of real scripts have a few KiB."""
_MAX_LISTED: Final = 20


class _MeasuredRunner(Runner):
    """Runs scripts with their full limits on this thread, and keeps the resources that the last call used."""

    def __init__(self) -> None:
        """Prepare with the limits of the server."""
        super().__init__()
        self._measured: Final = Machine()
        self.usage = Usage(0, 0)
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
    """Return the answer of a script. Blocks until the script ends, at most for the time that a script may take."""
    try:
        asked = ask_question(question)
        found = read_customization(build_customization(question))
    except (FixtureError, ExportError) as error:
        return refuse("input", str(error))
    if found.problems:
        text = found.problems[0].text
        return refuse("script", text, line=find_line(text))
    runner = _MeasuredRunner()
    layer = LuaLayer("lua", lambda: index_rules(found.rules), runner, observe=_ignore)
    answer = _ask(layer, asked)
    warnings = tuple(text for rule in found.rules for text in _list_warnings(rule))[:_MAX_LISTED]
    return answer._replace(
        instructions=runner.usage.instructions,
        memory=runner.usage.memory,
        printed=runner.lines,
        warnings=warnings,
    )


def _list_warnings(rule: Rule) -> tuple[str, ...]:
    return (*list_findings(rule), *list_unportable(rule))


def _ask(layer: Layer, asked: Question) -> PlaygroundAnswer:
    started = time.perf_counter()
    try:
        explained = Chain([layer]).begin(asked)
    except InterpretError as error:
        return PlaygroundAnswer(
            reason="script", error=str(error), line=find_line(str(error)), seconds=time.perf_counter() - started
        )
    assert isinstance(explained, Explained)  # the runner does not wait
    seconds = time.perf_counter() - started
    results = name_results(asked, explained.answer)
    if len(msgspec.json.encode(results)) > MAX_RESULT_BYTES:
        return PlaygroundAnswer(
            reason="script", error=f"the result has more than {MAX_RESULT_BYTES >> 20} MiB", seconds=seconds
        )
    return PlaygroundAnswer(results, seconds=seconds)


def find_line(message: str) -> int:
    """Return the line of the script that a message names first, 0 if it names none."""
    found = _LINE.search(message)
    return int(found[1]) if found else 0


def _ignore(name: str, outcome: str, seconds: float) -> None:
    """Drop a measurement: the playground has no metrics."""
    del name, outcome, seconds
