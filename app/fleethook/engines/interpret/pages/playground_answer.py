"""Answers a question of the playground by the chain that the server asks, with the limits of the server's scripts.

A question with its answer can be exported as files that ``fleethook interpret test`` runs.
"""

import re
import time
from typing import Any, Final, Literal, NamedTuple

import msgspec
import yaml

from fleethook.cluster.manifests.yaml_scalars import quote_texts
from fleethook.engines.interpret.chain import Chain, Explained, Layer
from fleethook.engines.interpret.fixtures import FixtureError, find_operation, make_question, name_results
from fleethook.engines.interpret.lua.layer import LuaLayer, index_rules
from fleethook.engines.interpret.lua.rules import FUNCTION_OF, Rule, list_findings, list_unportable, read_customization
from fleethook.engines.interpret.lua.runner import Call, Runner
from fleethook.engines.interpret.lua.vm import Machine, Usage
from fleethook.interpret.question import Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import API_VERSION, CUSTOMIZATION, Operation

Reason = Literal["", "input", "script"]
"""The cause of a missing result: an input that is no question, or the script."""


class PlaygroundQuestion(NamedTuple):
    """A script, and the question to it."""

    code: str
    operation: str
    """The released or the proposed name of an operation."""
    desired: JSON = None
    """The object to ask about."""
    observed: JSON = None
    """The object as observed in a member cluster."""
    items: JSON = None
    """AggregateStatus: the AggregatedStatusItems."""
    replicas: int = 0
    """ReviseReplica: the desired number of replicas."""


class PlaygroundAnswer(NamedTuple):
    """The results by their names in fixtures, or the error."""

    results: dict[str, JSON] | None = None
    reason: Reason = ""
    error: str = ""
    line: int = 0
    """The line of the script that the error names, 0 if it names none."""
    seconds: float = 0
    instructions: int = 0
    memory: int = 0
    """Bytes."""
    printed: tuple[str, ...] = ()
    """Lines that the script printed."""
    warnings: tuple[str, ...] = ()
    """Suspicious code in the script, each with its line."""


def refuse(reason: Reason, error: str, *, line: int = 0) -> PlaygroundAnswer:
    """Return the answer for an error."""
    return PlaygroundAnswer(reason=reason, error=error, line=line)


CUSTOMIZATION_FILE: Final = "customization.yaml"
FIXTURE_FILE: Final = "testdata/playground-test.yaml"

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class ExportError(ValueError):
    """A question has no form as a customization; the text states the reason and the remedy."""


@quote_texts
class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks, so that scripts stay readable."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, because users edit the output."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def ask_question(question: PlaygroundQuestion) -> Question:
    """Return the question to the interpreters; raises fleethook.engines.interpret.fixtures.FixtureError."""
    return make_question(
        find_operation(question.operation),
        desired=question.desired,
        observed=question.observed,
        items=question.items,
        replicas=question.replicas,
    )


def build_customization(question: PlaygroundQuestion) -> JSONObject:
    """Return the ResourceInterpreterCustomization with the script of a question.

    Raises:
        fleethook.engines.interpret.fixtures.FixtureError: The question is incomplete.
        ExportError: A customization has no rule for the operation.
    """
    asked = ask_question(question)
    function = FUNCTION_OF.get(asked.operation)
    if function is None:
        raise ExportError(f"a customization has no rule for {asked.operation}: choose another operation")
    name = _NOT_IN_NAMES.sub("-", f"{asked.kind.kind}-{asked.kind.group or 'core'}".lower()).strip("-")
    return {
        "apiVersion": API_VERSION,
        "kind": CUSTOMIZATION.kind,
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": asked.kind.api_version, "kind": asked.kind.kind},
            "customizations": {function.member: {"luaScript": question.code}},
        },
    }


def build_fixture(question: PlaygroundQuestion, results: JSONObject) -> JSONObject:
    """Return a fixture in Karmada's format that expects ``results``; raises FixtureError."""
    operation = ask_question(question).operation
    fixture: dict[str, Any] = {"name": f"{operation} as in the playground", "operation": operation.value}
    given: dict[str, JSON] = {
        "desiredObj": question.desired,
        "observedObj": question.observed,
        "statusItems": question.items if operation is Operation.AGGREGATE_STATUS else None,
        "inputReplicas": question.replicas if operation is Operation.REVISE_REPLICA else None,
    }
    return fixture | {name: value for name, value in given.items() if value is not None} | {"output": results}


def export_files(question: PlaygroundQuestion, results: JSONObject) -> dict[str, str]:
    """Return the texts of the exported files by their paths; raises as `build_customization`."""
    return {
        CUSTOMIZATION_FILE: write_yaml(build_customization(question)),
        FIXTURE_FILE: write_yaml(build_fixture(question, results)),
    }


def write_yaml(value: JSON) -> str:
    """Return a value as YAML with literal blocks."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


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
