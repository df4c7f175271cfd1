"""``fleethook hooks``: test admission rules."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from fleethook.admission.declaration import RuleError
from fleethook.admission.rule import Hook
from fleethook.admission.rules_file import load_rules
from fleethook.cli.command_line import Group
from fleethook.cli.exit_codes import fail
from fleethook.cli.fixtures import (
    FixtureCase,
    FixtureResult,
    Output,
    OutputOption,
    WatchOption,
    make_error_result,
    print_results,
    read_cases,
    run_and_exit,
)
from fleethook.cli.inputs.manifests import read_manifests, write_input_errors
from fleethook.cli.options import HooksOption, InputOptions
from fleethook.cli.parameters import Argument
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError
from fleethook.engines.hooks.rule_fixtures import RuleFixture, read_rule_fixtures, run_rule_fixture
from fleethook.patch.fixture_tests import FixtureError, is_fixture


def run_tests(
    paths: Annotated[list[Path], Argument(metavar="PATHS...", help="Files or directories of tests.")],
    hooks: HooksOption = None,
    reading: InputOptions = InputOptions(),
    output: OutputOption = Output.TEXT,
    watch: WatchOption = False,
) -> None:
    """Run tests of admission rules, and print the answers that differ.

    A test is a member of the list tests of a YAML document, with name, operation, object and output. The rules are
    those of --hooks, or of the files that the member rules of the document lists, relative to it.

    Exit codes: 0 success; 1 a test failed; 2 invalid arguments, unreadable input, an invalid test or an invalid rule.
    """

    def run() -> list[FixtureResult]:
        return _run_files(paths, hooks or [], reading, output)

    run_and_exit(run, watch=[*paths, *(hooks or [])] if watch else None)


def _run_files(
    paths: Sequence[Path], hooks: Sequence[Path], reading: InputOptions, output: Output
) -> list[FixtureResult]:
    """Run all tests and print the results. An unreadable document is a result without operation."""
    read = read_manifests(paths, reading, testdata=True, select=is_fixture)
    errors, found = [*read.errors], list[FixtureResult]()
    for document in read.selected:
        cases, invalid = read_cases([document], read_rule_fixtures)
        errors += invalid
        rules = _load_rules(hooks or list(_list_files(document)))
        for case in cases:
            try:
                found.append(_run_case(rules, case))
            except FixtureError as error:
                errors.append(ManifestError(str(case.path), case.line, f"{case.fixture.name}: {error}"))
    if not found and not errors:
        fail(f"no tests in {', '.join(map(str, paths))}")
    write_input_errors(errors)
    unreadable = [*map(make_error_result, errors)]
    shown = found if output is Output.TEXT else [*unreadable, *found]
    print_results(shown, output, command="fleethook hooks test", layer="rule")
    return [*unreadable, *found]


def _list_files(document: Document) -> Iterator[Path]:
    """Yield the files of rules that a document names. Exits with a message if it names none."""
    named = document.object.get("rules")
    if not isinstance(named, list) or not named or not all(isinstance(one, str) for one in named):
        fail(f"{document.source}:{document.line}: rules is no list of files: give [rules.py], for example, or --hooks")
    folder = Path() if document.source == "<stdin>" else Path(document.source).parent
    return (folder / one for one in named)


def _load_rules(files: Sequence[Path]) -> Sequence[Hook]:
    try:
        return load_rules(files)
    except RuleError as error:
        fail(str(error))


def _run_case(rules: Sequence[Hook], case: FixtureCase[RuleFixture]) -> FixtureResult:
    """Run one test; raises FixtureError."""
    started, fixture = time.perf_counter(), case.fixture
    found = run_rule_fixture(rules, fixture)
    seconds = time.perf_counter() - started
    return FixtureResult(
        str(case.path), case.line, fixture.name, fixture.operation, found.rule, seconds, found.error, found.differences
    )


hooks = Group("Test admission rules in Python.", {"test": run_tests})
