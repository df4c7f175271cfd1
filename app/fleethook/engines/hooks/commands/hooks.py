"""``fleethook hooks``: test and check admission rules."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from fleethook.admission.declaration import RuleError
from fleethook.admission.policy import API_VERSION, POLICY, POLICY_REMEDY, SUFFIX, name_resource
from fleethook.admission.rule import Hook
from fleethook.admission.rules_file import load_rules, unite_rules
from fleethook.cli.command_line import Group
from fleethook.cli.doctor.doctor_checks import Diagnosis
from fleethook.cli.doctor.doctor_cluster import Doctor, EngineChecks, run_allowed
from fleethook.cli.exit_codes import CHECK_FAILED, UNREADABLE, fail
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
from fleethook.cli.inputs.kubeconfig import Target, TargetOptions
from fleethook.cli.inputs.manifests import read_manifests, write_input_errors
from fleethook.cli.lint import lint_documents
from fleethook.cli.options import FilenameOption, HooksOption, InputOptions
from fleethook.cli.output.findings_output import (
    AnnotationFormat,
    Case,
    Row,
    annotate_errors,
    annotate_row,
    has_failures,
    make_input_row,
    print_junit,
    write_annotations,
)
from fleethook.cli.output.text_output import write, write_error, write_json
from fleethook.cli.parameters import Argument, Option
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.manifests.manifest_reader import describe_rules, make_rule_error
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError
from fleethook.cluster.registration.configuration_objects import VALIDATING
from fleethook.cluster.registration.rule_webhooks import make_webhook
from fleethook.engines.hooks.rule_fixtures import RuleFixture, read_rule_fixtures, run_rule_fixture
from fleethook.engines.hooks.served_kinds import list_unserved
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import as_object
from fleethook.patch.fixture_tests import is_fixture

_UNSERVED: Final = "unserved-resource"
"""The code of `fleethook lint` for a rule with a kind that nothing serves."""


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
    rules = _load_rules(hooks) if hooks else None
    for document in read.selected:
        cases, invalid = read_cases([document], read_rule_fixtures)
        errors += invalid
        if not cases:
            continue
        try:
            own = rules or load_rules(list(_list_files(document)))
        except ValueError as error:
            errors.append(ManifestError(document.source, document.line, str(error)))
            continue
        for case in cases:
            try:
                found.append(_run_case(own, case))
            except ValueError as error:
                errors.append(ManifestError(str(case.path), case.line, f"{case.fixture.name}: {error}"))
    sources = {one.source for one in read.selected} | {one.source for one in errors}
    empty = [one for one in paths if one.is_file() and str(one) not in sources]
    errors += [ManifestError(str(one), 0, "no tests: give a document with the list tests") for one in empty]
    if not found and not errors:
        fail(f"no tests in {', '.join(map(str, paths))}")
    write_input_errors(errors)
    unreadable = [*map(make_error_result, errors)]
    shown = found if output is Output.TEXT else [*unreadable, *found]
    print_results(shown, output, command="fleethook hooks test", layer="rule")
    return [*unreadable, *found]


def _list_files(document: Document) -> Iterator[Path]:
    """Yield the files of rules that a document names; raises ValueError if it names none."""
    named = document.object.get("rules")
    if not isinstance(named, list) or not named or not all(isinstance(one, str) for one in named):
        raise ValueError("rules is no list of files: give [rules.py], for example, or --hooks")
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
    if found.unasked:
        place = f"{case.path}:{case.line}: {fixture.name}"
        write_error(f"note: {place}: no rule is asked: {found.unasked}: expect `matched: false`, or change the request")
    return FixtureResult(
        str(case.path), case.line, fixture.name, fixture.operation, found.rule, seconds, found.error, found.differences
    )


class CheckOutput(StrEnum):
    """Output formats of ``fleethook hooks check``."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"


def check(
    files: Annotated[list[Path], Argument(metavar="FILES...", help="Files (*.py) of admission rules.")],
    filename: FilenameOption = None,
    cluster: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    output: Annotated[CheckOutput, Option("--output", "-o", help="Output format.")] = CheckOutput.TEXT,
) -> None:
    """Check files of admission rules as the server does at its start, and print the rules with their findings.

    The command runs the files, and checks the arguments of the decorators, with selectors and CEL expressions. Rules
    get the findings of `fleethook lint`, for example about a rule that never fires.

    The discovery of a cluster (--kubeconfig, --context, --in-cluster) tells the kinds that exist. Without a cluster,
    these are the built-in kinds and the CustomResourceDefinitions of -f; other kinds are warnings.

    `--output sarif` for code scanning and `--output github` for pull requests print only the findings.

    Exit codes: 0 success; 1 errors found; 2 invalid arguments, unreadable input or a file that cannot be used.
    """
    rules, errors = _load_each(files)
    read = read_manifests(filename or (), reading)
    errors += read.errors
    rows = _lint_rules(rules, read.documents, cluster)
    write_input_errors(errors)
    _print_findings(rules, rows, errors, output, strict=reading.strict)
    if errors:
        raise SystemExit(UNREADABLE)
    if has_failures(rows, strict=reading.strict):
        raise SystemExit(CHECK_FAILED)


def _load_each(files: Sequence[Path]) -> tuple[list[Hook], list[ManifestError]]:
    """Return the rules of all usable files, and an error for each other file."""
    rules, errors = list[Hook](), list[ManifestError]()
    for file in files:
        try:
            united = unite_rules([*rules, *load_rules([file])])
        except RuleError as error:
            errors.append(make_rule_error(error))
        else:
            rules = united
    return rules, errors


def _lint_rules(rules: Sequence[Hook], documents: Sequence[Document], cluster: TargetOptions) -> list[Row]:
    described = describe_rules(rules)
    places = {one.place for one in described}
    rows = [one for one in lint_documents([*documents, *described], None) if one.place in places]
    if not cluster.is_given:
        return rows
    return [*(one for one in rows if one.code != _UNSERVED), *_find_unserved(rules, cluster.find())]


def _find_unserved(rules: Sequence[Hook], cluster: Target) -> list[Row]:
    """Return the rules with a kind that the cluster does not serve. Exits with a message if it cannot be read."""

    async def read() -> list[Row]:
        async with cluster.connect() as connection:
            return [_make_row(rule, problem) async for rule, problem in list_unserved(rules, connection)]

    try:
        return asyncio.run(read())
    except (APIError, UnreachableError) as error:
        fail(f"cannot read the cluster: {error}")


def _make_row(rule: Hook, problem: str) -> Row:
    webhook = make_webhook(rule)
    return Row(
        "error",
        _UNSERVED,
        "",
        webhook.configuration,
        "",
        rule.name,
        webhook=webhook.name,
        field="",
        text=problem,
        place=_find_place(rule),
    )


def _find_place(rule: Hook) -> str:
    return f"{rule.file}:{rule.line}"


def _print_findings(
    rules: Sequence[Hook], rows: Sequence[Row], errors: Sequence[ManifestError], output: CheckOutput, *, strict: bool
) -> None:
    if output is CheckOutput.JSON:
        write_json([*map(make_input_row, errors), *rows])
    elif output in [*AnnotationFormat]:
        write_annotations([*annotate_errors(errors), *map(annotate_row, rows)], AnnotationFormat(output))
    elif output is CheckOutput.JUNIT:
        unreadable = [Case(one.place, "unreadable input", [one.reason]) for one in errors]
        print_junit("fleethook hooks check", [*unreadable, *(_make_case(one, rows, strict=strict) for one in rules)])
    else:
        for rule in rules:
            _print_rule(rule, _list_about(rule, rows), strict=strict)


def _list_about(rule: Hook, rows: Sequence[Row]) -> list[Row]:
    return [one for one in rows if (one.place, one.name) == (_find_place(rule), rule.name)]


def _make_case(rule: Hook, rows: Sequence[Row], *, strict: bool) -> Case:
    about = _list_about(rule, rows)
    return Case(_find_place(rule), rule.name, [*map(_describe, about)] if has_failures(about, strict=strict) else [])


def _print_rule(rule: Hook, about: Sequence[Row], *, strict: bool) -> None:
    declared = rule.declaration
    word = "FAIL" if has_failures(about, strict=strict) else "ok  "
    requests = f"{name_resource(declared)} ({GroupVersionKind(declared.group, declared.version, '').api_version})"
    verb = "change" if declared.mutates else "validate"
    write(f"{word} {_find_place(rule)}: {rule.name}: {verb} {requests} on {', '.join(declared.operations)}")
    write(*(f"     {_describe(one)}" for one in about))


def _describe(row: Row) -> str:
    return f"{row.level} [{row.code}]: {row.text}"


hooks = Group("Test and check admission rules in Python.", {"test": run_tests, "check": check})


async def _examine_policies(doctor: Doctor) -> AsyncIterator[Diagnosis]:
    """Yield a finding for each rule about which its webhook and a policy of the same name decide."""
    configurations = await doctor.list_items(f"/apis/{API_VERSION}/{VALIDATING.lower()}s")
    policies = await doctor.list_items(f"/apis/{API_VERSION}/validatingadmissionpolicies")
    served = {str(as_object(hook).get("name")) for one in configurations for hook in one.get("webhooks") or ()}
    names = {str(as_object(one.get("metadata")).get("name")) for one in policies}
    for name in sorted(name for name in served & names if name.endswith(SUFFIX)):
        text = f"the webhook {name} and the {POLICY.kind} of this name decide the same about the same requests"
        yield Diagnosis("warning", "registration", text, POLICY_REMEDY)


CHECKS: Final = EngineChecks(examine_objects=lambda doctor: run_allowed("registration", _examine_policies(doctor)))
"""The checks of registered webhooks of rules."""
