"""Fixtures of ``fleethook interpret test``: finds them in files and directories, and runs them."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fleethook.cli.fixtures import FixtureCase, FixtureResult, read_cases
from fleethook.cli.inputs.manifests import read_manifests
from fleethook.cli.options import InputOptions
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError
from fleethook.engines.interpret.chain import Chain, ChainError
from fleethook.engines.interpret.commands.interpret_chain import explain_error, list_python_files
from fleethook.engines.interpret.fixtures import Fixture, compare_answer, read_fixtures
from fleethook.model.json import JSON
from fleethook.patch.fixture_tests import Difference, is_fixture


class FixtureSet(NamedTuple):
    """The content of files and directories.

    Attributes:
        cases: The fixtures.
        objects: Customizations and webhook configurations under test.
        interpreters: Files of interpreters in Python under test.
        errors: Documents that cannot be read, and invalid fixtures.
    """

    cases: list[FixtureCase[Fixture]]
    objects: list[Document]
    interpreters: list[str]
    errors: list[ManifestError]


def find_fixtures(paths: Sequence[Path], reading: InputOptions = InputOptions()) -> FixtureSet:
    """Return the fixtures in files and directories; directories also hold the interpreters under test."""
    read = read_manifests(paths, reading, testdata=True, select=is_fixture)
    cases, errors = read_cases(read.selected, _read_tests)
    interpreters = list(map(str, list_python_files(paths, reading.exclude or ())))
    named = set(map(str, paths))
    objects = [one for one in read.documents if one.source not in named]
    return FixtureSet(cases, objects, interpreters, [*read.errors, *errors])


def _read_tests(document: JSON) -> Iterator[tuple[int, Fixture]]:
    return ((one.test, one) for one in read_fixtures(document))


async def run_fixture(chain: Chain, case: FixtureCase[Fixture]) -> FixtureResult:
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
