"""The playground's form: reads the texts, asks the script, and shows result, changes, cost and export."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import islice
from typing import Final

from fleethook.console.forms import FieldError, FormFieldError, limit_text, read_documents, read_value
from fleethook.engines.interpret.fixtures import FixtureError, find_operation
from fleethook.engines.interpret.pages.playground_answer import (
    PlaygroundAnswer,
    PlaygroundQuestion,
    answer_question,
    export_files,
    write_yaml,
)
from fleethook.model.json import JSON
from fleethook.model.karmada import PATCHING, Operation

MAX_TEXT: Final = 512 << 10
"""Characters of one field. Objects of a real fleet rarely have more than 100 KiB."""
MAX_SHOWN: Final = 200_000
"""Characters of a result on the page."""
MAX_DIFF_LINES: Final = 5_000
"""Lines of a document that is compared: the comparison takes quadratic time."""

Ask = Callable[[PlaygroundQuestion], PlaygroundAnswer]
"""Runs a script (`fleethook.engines.interpret.pages.playground_answer.answer_question`)."""

_CHANGED: Final = {
    Operation.RETAIN: "retained", Operation.REVISE_REPLICA: "revised", Operation.AGGREGATE_STATUS: "aggregatedStatus",
    Operation.PRUNE: "packed",
}  # fmt: skip
"""The result of each operation that changes the object."""


@dataclass(frozen=True)
class PlaygroundForm:
    """The fields of the form, as the user typed them; the objects are YAML or JSON."""

    operation: str = Operation.HEALTH.value
    code: str = ""
    desired: str = ""
    observed: str = ""
    items: str = ""
    """AggregateStatus: the AggregatedStatusItems, as documents or as a list."""
    replicas: str = ""
    """ReviseReplica: the desired number."""


@dataclass(frozen=True)
class DiffLine:
    """A line of the difference between object and result."""

    sign: str
    """``+``, ``-``, ``@`` or a space."""
    text: str


@dataclass(frozen=True)
class ExportedFile:
    """A file for ``fleethook interpret test``."""

    path: str
    text: str


@dataclass(frozen=True)
class PlaygroundResult:
    """The part of the page about a question: an error, or the result."""

    error: FieldError | None = None
    result: str = ""
    """The results as YAML."""
    is_cut: bool = False
    """Whether `result` lacks its end."""
    diff: tuple[DiffLine, ...] = ()
    milliseconds: float = 0
    instructions: int = 0
    memory_kib: int = 0
    printed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[ExportedFile, ...] = ()


_OBJECT: Final = """\
apiVersion: games.example.com/v1
kind: Game
metadata: {name: chess, namespace: default}
spec: {players: 2}
status: {ready: true}
"""
_ITEMS: Final = """\
- clusterName: member1
  status: {ready: true}
- clusterName: member2
  status: {ready: false}
"""

EXAMPLES: Final[Mapping[str, str]] = {
    "InterpretReplica": "function GetReplicas(obj)\n  return obj.spec.players, nil\nend\n",
    "ReviseReplica": "function ReviseReplica(obj, replicas)\n  obj.spec.players = replicas\n  return obj\nend\n",
    "Retain": "function Retain(desiredObj, observedObj)\n"
    "  desiredObj.spec.players = observedObj.spec.players\n  return desiredObj\nend\n",
    "InterpretStatus": "function ReflectStatus(obj)\n  return {ready = obj.status.ready}\nend\n",
    "AggregateStatus": "function AggregateStatus(obj, items)\n  local ready = true\n  for i = 1, #items do\n"
    "    ready = ready and items[i].status.ready\n  end\n  obj.status = {ready = ready}\n  return obj\nend\n",
    "InterpretHealth": "function InterpretHealth(obj)\n  return obj.status ~= nil and obj.status.ready == true\nend\n",
    "InterpretDependency": "function GetDependencies(obj)\n  return {{apiVersion = 'v1', kind = 'Secret', "
    "namespace = obj.metadata.namespace, name = 'scores'}}\nend\n",
}
"""A script for each operation that most kinds have, with which the form begins."""


@dataclass(frozen=True)
class CodeLine:
    """A line of a script beside an error."""

    number: int
    text: str
    is_wrong: bool
    """Whether the error names it."""


_LINES_AROUND: Final = 3


def number_lines(code: str, line: int) -> tuple[CodeLine, ...]:
    """Return the lines of a script around one that an error names."""
    lines = code.splitlines()
    first = max(1, line - _LINES_AROUND)
    around = lines[first - 1 : line + _LINES_AROUND]
    return tuple(CodeLine(number, text, number == line) for number, text in enumerate(around, first))


def fill_form(operation: str) -> PlaygroundForm:
    """Return the form with an example for an operation; another operation gets that of the health."""
    name = operation if operation in EXAMPLES else Operation.HEALTH.value
    return PlaygroundForm(
        operation=name,
        code=EXAMPLES[name],
        desired=_OBJECT,
        observed=_OBJECT.replace("players: 2", "players: 4") if name == Operation.RETAIN else "",
        items=_ITEMS if name == Operation.AGGREGATE_STATUS else "",
        replicas="4" if name == Operation.REVISE_REPLICA else "",
    )


def run_form(form: PlaygroundForm, ask: Ask = answer_question) -> PlaygroundResult:
    """Ask the script of a form, and return its result or its error. Blocks until the script ends."""
    try:
        question = read_form(form)
    except FormFieldError as problem:
        return PlaygroundResult(error=problem.error)
    answer = ask(question)
    cost = PlaygroundResult(
        milliseconds=answer.seconds * 1000,
        instructions=answer.instructions,
        memory_kib=answer.memory >> 10,
        printed=answer.printed,
        warnings=answer.warnings,
    )
    if answer.results is None:
        field = "desired" if answer.reason == "input" else "code"
        return replace(cost, error=FieldError(field, answer.error, answer.line))
    text = write_yaml(answer.results)
    return replace(
        cost,
        result=text[:MAX_SHOWN],
        is_cut=len(text) > MAX_SHOWN,
        diff=compare(question, answer.results),
        files=tuple(ExportedFile(path, text) for path, text in export_files(question, answer.results).items()),
    )


def read_form(form: PlaygroundForm) -> PlaygroundQuestion:
    """Return the question of a form; raises FormFieldError."""
    if not form.code.strip():
        raise FormFieldError("code", "the script is empty")
    try:
        operation = find_operation(form.operation)
    except FixtureError as error:
        raise FormFieldError("operation", str(error)) from None
    return PlaygroundQuestion(
        limit_text("code", form.code, most=MAX_TEXT).replace("\r\n", "\n"),
        operation.value,
        read_value("desired", form.desired, most=MAX_TEXT),
        read_value("observed", form.observed, most=MAX_TEXT),
        _read_items(form.items),
        _read_replicas(form.replicas),
    )


def _read_items(text: str) -> list[JSON]:
    """Return the items of documents or of a list, as ``fleethook interpret run --status-file`` does."""
    found = [one.value for one in read_documents("items", text, most=MAX_TEXT)]
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _read_replicas(text: str) -> int:
    try:
        found = int(text.strip() or 0)
    except ValueError:
        found = -1
    if not 0 <= found < 1 << 31:  # an int32 in Kubernetes
        raise FormFieldError("replicas", f"{text[:20]!r} is not a number of replicas")
    return found


def compare(question: PlaygroundQuestion, results: dict[str, JSON]) -> tuple[DiffLine, ...]:
    """Return the lines that an operation changes in its object; none for an operation that changes nothing."""
    operation = find_operation(question.operation)
    if operation not in PATCHING or operation not in _CHANGED:
        return ()
    before = write_yaml(question.desired if question.desired is not None else question.observed).splitlines()
    after = write_yaml(results.get(_CHANGED[operation])).splitlines()
    if max(len(before), len(after)) > MAX_DIFF_LINES:
        return (DiffLine("@", f"the objects have more than {MAX_DIFF_LINES} lines, so they are not compared"),)
    lines = islice(unified_diff(before, after, lineterm=""), 2, None)
    return tuple(DiffLine(line[0], line if line[0] == "@" else line[1:]) for line in lines)
