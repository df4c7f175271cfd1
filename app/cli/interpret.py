"""``fleethook interpret``: interpreters off-line, through all layers."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from xml.etree import ElementTree as ET

import typer
import yaml

from app.cli.failures import CHECK_FAILED, fail
from app.cli.manifests import documents, files, values
from app.interpret.access import InterpretError
from app.interpret.chain import Chain, ChainError, NativeLayer, PythonLayer, Step
from app.interpret.fixtures import (
    Difference,
    Fixture,
    FixtureError,
    differences,
    fixture,
    operation_of,
    question,
    results,
)
from app.interpret.hook_rules import problems
from app.interpret.hooks import CONFIGURATIONS
from app.interpret.registry import Interpreter, LoadError, load
from app.interpret.webhook import DEFINITIONS_BY_KIND, WebhookLayer
from app.model.json import JSON, JSONObject
from app.outbound.client import HookClient
from app.store import Store
from app.store.store import key_of

interpret = typer.Typer(help="Run and test interpreters off-line: native, Python, hooks.", no_args_is_help=True)

_Interpreters = Annotated[
    list[str] | None, typer.Option("--interpreters", help="File (*.py) or module of interpreters; may be repeated.")
]
_Manifests = Annotated[
    list[Path] | None,
    typer.Option("--manifests", help="Hook configurations and definitions to take into account; may be repeated."),
]


class RunOutput(StrEnum):
    """How an answer is printed."""

    YAML = "yaml"
    JSON = "json"


class TestOutput(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


def _loaded(sources: Sequence[str]) -> list[Interpreter]:
    try:
        return [one for source in sources for one in load(source)]
    except LoadError as error:
        fail(str(error))


def _chain(client: HookClient, interpreters: Sequence[str], manifests: Sequence[Path]) -> Chain:
    store = Store([DEFINITIONS_BY_KIND])
    layer = WebhookLayer(store, client, observe=lambda *_: None)
    for document in documents(manifests):
        store.put(document.object)
    return Chain([layer, PythonLayer(_loaded(interpreters)), NativeLayer()])


def _object(path: Path | None) -> JSON:
    if path is None:
        return None
    found = values(path)
    if len(found) != 1:
        fail(f"{path} holds {len(found)} documents, expected one")
    return found[0].value


@interpret.command()
def run(
    operation: Annotated[
        str, typer.Option(help="InterpretHealth, Retain ...; or ExploreHealthy, ExploreRetaining ...")
    ],
    desired_file: Annotated[
        Path | None, typer.Option("--desired-file", "-f", help="The object, '-' for stdin.")
    ] = None,
    observed_file: Annotated[Path | None, typer.Option(help="The object as a member cluster has it.")] = None,
    status_file: Annotated[Path | None, typer.Option(help="AggregatedStatusItems, as documents or a list.")] = None,
    desired_replica: Annotated[int | None, typer.Option(help="How many replicas are wanted.")] = None,
    interpreters: _Interpreters = None,
    manifests: _Manifests = None,
    output: Annotated[RunOutput, typer.Option("--output", "-o", help="How to print it.")] = RunOutput.YAML,
) -> None:
    """Ask one question of all layers, and print the answer and who gave it.

    Exits 1 if there is no answer, 2 for usage or unreadable input.
    """
    items = [] if status_file is None else [value.value for value in values(status_file)]
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]
    try:
        asked = question(
            operation_of(operation),
            desired=_object(desired_file),
            observed=_object(observed_file),
            items=items,
            replicas=desired_replica,
        )
    except FixtureError as error:
        fail(str(error))

    async def answered() -> tuple[JSONObject, Step]:
        async with HookClient() as client:
            explained = await _chain(client, interpreters or [], manifests or []).answer(asked)
            return results(asked, explained.answer), explained.steps[-1]

    try:
        found, step = asyncio.run(answered())
    except InterpretError as error:
        fail(f"{asked.operation}: {error}", code=CHECK_FAILED)
    if output is RunOutput.JSON:
        sys.stdout.write(json.dumps({"layer": step.layer, "hook": step.hook, "results": found}, indent=2) + "\n")
        return
    for position, (name, value) in enumerate(found.items(), start=1):
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True).removesuffix("...\n")
        sys.stdout.write(f"---\n# [{position}/{len(found)}] {name}: ({step.layer}: {step.hook})\n{text}")


class _Result(NamedTuple):
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
        return not self.error and not self.differences


@interpret.command("test")
def run_tests(
    paths: Annotated[list[Path], typer.Argument(metavar="FILES...", help="Fixture files or directories.")],
    interpreters: _Interpreters = None,
    manifests: _Manifests = None,
    output: Annotated[TestOutput, typer.Option("--output", "-o", help="How to print it.")] = TestOutput.TEXT,
) -> None:
    """Run fixtures through all layers, and print what is answered otherwise.

    The format is Karmada's own: documents with name, operation, desiredObj, observedObj, statusItems,
    inputReplicas and output. Exits 1 if any fails, 2 if a file cannot be read or is no fixture.
    """
    cases: list[tuple[Path, int, Fixture]] = []
    for path in files(paths):
        for value in values(path):
            try:
                cases.append((path, value.line, fixture(value.value)))
            except FixtureError as error:
                fail(f"{path}:{value.line}: {error}")
    if not cases:
        fail("there are no fixtures in what was given")

    async def run_all() -> list[_Result]:
        async with HookClient() as client:
            chain = _chain(client, interpreters or [], manifests or [])
            return [await _run_one(chain, path, line, case) for path, line, case in cases]

    found = asyncio.run(run_all())
    {TestOutput.TEXT: _print_text, TestOutput.JSON: _print_json, TestOutput.JUNIT: _print_junit}[output](found)
    if not all(result.passed for result in found):
        raise typer.Exit(CHECK_FAILED)


async def _run_one(chain: Chain, path: Path, line: int, case: Fixture) -> _Result:
    started = time.perf_counter()
    layer, error, found = "", "", list[Difference]()
    try:
        explained = await chain.answer(case.question)
        layer = explained.steps[-1].layer
        found = list(differences(case, explained.answer))
    except ChainError as problem:
        layer, error = problem.steps[-1].layer if problem.steps else "", str(problem)
    seconds = time.perf_counter() - started
    return _Result(str(path), line, case.name, case.question.operation.value, layer, seconds, error, found)


def _lines(result: _Result) -> Iterator[str]:
    if result.error:
        yield result.error
    for one in result.differences:
        yield f"{one.path}"
        yield f"  expected {json.dumps(one.expected)}"
        yield f"  found    {json.dumps(one.found)}"


def _print_text(found: list[_Result]) -> None:
    for result in found:
        verdict = "ok  " if result.passed else "FAIL"
        sys.stdout.write(f"{verdict} {result.operation:<20} {result.layer:<8} {result.name}\n")
        if not result.passed:
            sys.stdout.write(f"     {result.file}:{result.line}\n")
            sys.stdout.writelines(f"     {line}\n" for line in _lines(result))
    failed = sum(not result.passed for result in found)
    sys.stdout.write(f"{len(found) - failed} passed, {failed} failed\n")


def _print_json(found: list[_Result]) -> None:
    rows: list[dict[str, Any]] = [
        {**result._asdict(), "passed": result.passed, "differences": [one._asdict() for one in result.differences]}
        for result in found
    ]
    sys.stdout.write(json.dumps(rows, indent=2) + "\n")


def _print_junit(found: list[_Result]) -> None:
    failed = sum(not result.passed for result in found)
    suite = ET.Element(
        "testsuite", name="fleethook interpret", tests=str(len(found)), failures=str(failed)
    )  # fmt: skip
    for result in found:
        case = ET.SubElement(
            suite, "testcase", classname=f"{result.file}:{result.line}", name=result.name, time=f"{result.seconds:.6f}"
        )
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=next(_lines(result)))
            failure.text = "\n".join(_lines(result))
    sys.stdout.write(ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")


@interpret.command()
def check(
    paths: Annotated[list[Path], typer.Argument(help="Hook configurations (YAML) and interpreters (*.py).")],
) -> None:
    """Check hook configurations and interpreters, and print what each is good for.

    Exits 1 if anything is wrong, 2 if a file cannot be read.
    """
    wrong = False
    sources = [path for path in files(paths) if path.suffix == ".py"]
    for path in sources:
        for one in _loaded([str(path)]):
            operations = ", ".join(sorted(one.functions)) or "nothing"
            sys.stdout.write(f"ok   {path}: {one.kind.api_version} {one.kind.kind}: {operations}\n")
            wrong |= not one.functions
    for document in documents([path for path in paths if path not in sources]):
        group_kind = key_of(document.object).group_kind
        if group_kind not in CONFIGURATIONS:
            continue
        found = list(problems(group_kind, document.object))
        wrong |= bool(found)
        name = f"{document.source}:{document.line}: {group_kind.kind} {document.object['metadata']['name']}"
        sys.stdout.write(f"{'FAIL' if found else 'ok  '} {name}\n")
        sys.stdout.writelines(f"     {problem.field}: {problem.text}\n" for problem in found)
    if wrong:
        raise typer.Exit(CHECK_FAILED)
