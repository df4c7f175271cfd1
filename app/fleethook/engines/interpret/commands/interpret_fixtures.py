"""Fixtures of ``fleethook interpret test``: finds them in files and directories, runs them, and prints the results."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from fleethook.cli.inputs.manifests import read_manifests
from fleethook.cli.options import InputOptions
from fleethook.cli.output.ci_output import Case, print_junit
from fleethook.cli.output.terminal import styled, write_json, write_styled
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError
from fleethook.engines.interpret.chain import Chain, ChainError
from fleethook.engines.interpret.commands.interpret_chain import explain_error, list_python_files
from fleethook.engines.interpret.fixtures import (
    Difference,
    Fixture,
    FixtureError,
    compare_answer,
    is_fixture,
    read_fixtures,
)


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


class FixtureResult(NamedTuple):
    """The result of one fixture.

    Attributes:
        file: Path of the file with the fixture.
        line: Line of the fixture, from 1.
        name: Name of the fixture.
        operation: Operation that it asks about, by its name in Karmada.
        layer: Layer that answered or failed, ``""`` if there was none.
        seconds: Time until the answer.
        error: Reason for a missing answer, ``""`` if there is an answer.
        differences: Members of the answer that differ from the fixture.
    """

    file: str
    line: int
    name: str
    operation: str
    layer: str
    seconds: float
    error: str
    differences: list[Difference]

    @property
    def passed(self) -> bool:
        """Whether the answer equals the fixture."""
        return not self.error and not self.differences


def make_error_result(error: ManifestError) -> FixtureResult:
    """Return the result of a document that cannot be read."""
    return FixtureResult(error.source, max(error.line, 1), "unreadable input", "", "", 0.0, error.reason, [])


def print_results(results: Sequence[FixtureResult], output: Output) -> None:
    """Write results to standard output."""
    _PRINTERS[output](results)


def _describe_failure(result: FixtureResult) -> Iterator[tuple[str, str]]:
    """Yield the lines about a failed fixture, each with its style."""
    if result.error:
        yield result.error, ""
    for one in result.differences:
        yield f"{one.path}", ""
        yield f"  expected {json.dumps(one.expected)}", "green"
        yield f"  found    {json.dumps(one.found)}", "red"


def _print_text(results: Sequence[FixtureResult]) -> None:
    for result in results:
        word, style = ("ok  ", "green") if result.passed else ("FAIL", "bold red")
        write_styled(styled(word, style), styled(f"{result.operation:<20} {result.layer:<8} {result.name}"))
        if not result.passed:
            write_styled(styled(f"     {result.file}:{result.line}", "cyan"))
            for line, line_style in _describe_failure(result):
                write_styled(styled(f"     {line}", line_style))
    failed = sum(not result.passed for result in results)
    write_styled(styled(f"{len(results) - failed} passed, {failed} failed"))


def _print_json(results: Sequence[FixtureResult]) -> None:
    rows: list[dict[str, Any]] = [
        {**result._asdict(), "passed": result.passed, "differences": [one._asdict() for one in result.differences]}
        for result in results
    ]
    write_json(rows)


def _print_junit(results: Sequence[FixtureResult]) -> None:
    print_junit("fleethook interpret", [_make_case(one) for one in results])


def _make_case(result: FixtureResult) -> Case:
    failure = [line for line, _ in _describe_failure(result)]
    return Case(f"{result.file}:{result.line}", result.name, failure, result.seconds)


_PRINTERS: Final[Mapping[Output, Callable[[Sequence[FixtureResult]], None]]] = {
    Output.TEXT: _print_text,
    Output.JSON: _print_json,
    Output.JUNIT: _print_junit,
}


class FixtureCase(NamedTuple):
    """A fixture with its file and line."""

    path: Path
    line: int
    fixture: Fixture


class FixtureSet(NamedTuple):
    """The content of files and directories.

    Attributes:
        cases: The fixtures.
        objects: Customizations and webhook configurations under test.
        interpreters: Files of interpreters in Python under test.
        errors: Documents that cannot be read, and invalid fixtures.
    """

    cases: list[FixtureCase]
    objects: list[Document]
    interpreters: list[str]
    errors: list[ManifestError]


def find_fixtures(paths: Sequence[Path], reading: InputOptions = InputOptions()) -> FixtureSet:
    """Return the fixtures in files and directories; directories also hold the interpreters under test."""
    read = read_manifests(paths, reading, testdata=True, select=is_fixture)
    found = FixtureSet([], [], [], read.errors)
    found.interpreters.extend(map(str, list_python_files(paths, reading.exclude or ())))
    for document in read.selected:
        for one in _read_cases(document):
            if isinstance(one, ManifestError):
                found.errors.append(one)
            else:
                found.cases.append(one)
    named = set(map(str, paths))
    found.objects.extend(one for one in read.documents if one.source not in named)
    return found


def _read_cases(document: Document) -> Iterator[FixtureCase | ManifestError]:
    """Yield the fixtures of a document, each with its line, up to the first invalid one."""
    lines, shared, path = FieldLines(), "tests" in document.object, Path(document.source)
    try:
        for one in read_fixtures(document.object):
            line = lines.line(document, f"tests[{one.test}]") if shared else document.line
            yield FixtureCase(path, line, one)
    except FixtureError as error:
        line = lines.line(document, f"tests[{error.test}]") if shared else document.line
        yield ManifestError(document.source, line, str(error))


async def run_fixture(chain: Chain, case: FixtureCase) -> FixtureResult:
    """Ask the chain the question of a fixture, and compare the answer."""
    started = time.perf_counter()
    layer, failure, found = "", "", list[Difference]()
    question = case.fixture.question
    try:
        explained = await chain.answer(question)
        layer = explained.steps[-1].layer
        found = list(compare_answer(case.fixture, explained.answer))
    except ChainError as error:
        layer, failure = error.steps[-1].layer if error.steps else "", explain_error(question, error)
    seconds = time.perf_counter() - started
    operation = question.operation.value
    return FixtureResult(str(case.path), case.line, case.fixture.name, operation, layer, seconds, failure, found)
