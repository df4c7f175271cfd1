"""Fixtures of ``fleethook interpret test``: finding them in files and directories, and running one."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fleethook.cli.inputs.manifests import read_manifests
from fleethook.cli.options import InputOptions
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError
from fleethook.engines.interpret.chain import Chain, ChainError
from fleethook.engines.interpret.commands.interpret_chain import explain_error, list_python_files
from fleethook.engines.interpret.commands.interpret_output import FixtureResult
from fleethook.engines.interpret.fixtures import (
    Difference,
    Fixture,
    FixtureError,
    compare_answer,
    is_fixture,
    read_fixtures,
)


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
