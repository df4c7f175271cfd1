"""``fleethook interpret``: interpreters off-line, through all layers."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
import watchfiles

from app.cli.failures import CHECK_FAILED, fail
from app.cli.interpreter_registration import register
from app.cli.interpreters import build_chain, explain_error, find, judge, loaded
from app.cli.json_output import write_json
from app.cli.manifests import documents, mappings, values
from app.cli.options import InterpretersOption
from app.cli.scripts import has_scripts, judged, unasked
from app.cli.terminal import flush, write, write_document, write_error
from app.cli.verdicts import Output, Verdict, print_verdicts
from app.cli.yaml_output import yaml_text
from app.interpret.access import InterpretError
from app.interpret.chain import ChainError, Step
from app.interpret.fixtures import FixtureError, find_operation, make_question, name_results
from app.interpret.hook_configuration import CONFIGURATIONS
from app.interpret.hook_validation import problems
from app.interpret.lua.runner import Runner
from app.model.json import JSON, JSONObject
from app.outbound.client import HookClient
from app.store.store import key_of
from app.store.yaml_reader import Document

interpret = typer.Typer(help="Run and test interpreters off-line: Lua, hooks, Python, native.", no_args_is_help=True)
interpret.command("register")(register)

_Manifests = Annotated[
    list[Path] | None,
    typer.Option(
        "--manifests", help="Customizations, hook configurations, definitions to take into account; may be repeated."
    ),
]


class RunOutput(StrEnum):
    """How an answer is printed."""

    YAML = "yaml"
    JSON = "json"


def _object(path: Path | None) -> JSON:
    if path is None:
        return None
    found = values(path)
    if len(found) != 1:
        fail(f"{path} holds {len(found)} documents, expected one")
    return found[0].value


class _Given(NamedTuple):
    """Documents of ``-f``, which karmadactl takes customizations by."""

    objects: list[JSONObject]
    interpreters: list[Document]


def _given(paths: Sequence[Path]) -> _Given:
    given = _Given([], [])
    for document in (one for path in paths for one in mappings(path)):
        key = key_of(document.object)
        if has_scripts(document) or key.group_kind in CONFIGURATIONS:
            given.interpreters.append(document)
        else:
            given.objects.append(document.object)
    return given


@interpret.command()
def run(
    operation: Annotated[
        str, typer.Option(help="InterpretHealth, Retain ...; or ExploreHealthy, ExploreRetaining ...")
    ],
    filenames: Annotated[
        list[Path] | None,
        typer.Option("--filename", "-f", help="The object, or customizations to ask ('-' for stdin); may be repeated."),
    ] = None,
    desired_file: Annotated[Path | None, typer.Option(help="The object, '-' for stdin.")] = None,
    observed_file: Annotated[Path | None, typer.Option(help="The object as a member cluster has it.")] = None,
    status_file: Annotated[Path | None, typer.Option(help="AggregatedStatusItems, as documents or a list.")] = None,
    desired_replica: Annotated[int | None, typer.Option(help="How many replicas are wanted.")] = None,
    interpreters: InterpretersOption = None,
    manifests: _Manifests = None,
    output: Annotated[RunOutput, typer.Option("--output", "-o", help="How to print it.")] = RunOutput.YAML,
) -> None:
    """Ask one question of all layers, and print the answer and who gave it.

    What a script prints is written to standard error. Exits 1 if there is no answer, 2 for usage or unreadable input.
    """
    items = [] if status_file is None else [value.value for value in values(status_file)]
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]
    given = _given(filenames or [])
    if len(given.objects) + (desired_file is not None) > 1:
        fail("-f and --desired-file give several objects: one question is about one of them")
    try:
        asked = make_question(
            find_operation(operation),
            desired=given.objects[0] if given.objects else _object(desired_file),
            observed=_object(observed_file),
            items=items,
            replicas=desired_replica,
        )
    except FixtureError as error:
        fail(str(error))
    runner = Runner()
    objects = [*documents(manifests or []), *given.interpreters]

    async def answered() -> tuple[JSONObject, Step]:
        async with HookClient(allow_private=True) as client:
            explained = await build_chain(client, runner, interpreters or [], objects).answer(asked)
            return name_results(asked, explained.answer), explained.steps[-1]

    try:
        found, step = asyncio.run(answered())
    except ChainError as error:
        fail(f"{asked.operation}: {explain_error(asked, error)}", code=CHECK_FAILED)
    except InterpretError as error:
        fail(f"{asked.operation}: {error}", code=CHECK_FAILED)
    finally:
        write_error(*runner.printed())
    if output is RunOutput.JSON:
        write_json({"layer": step.layer, "hook": step.hook, "results": found})
        return
    for position, (name, value) in enumerate(found.items(), start=1):
        write("---", f"# [{position}/{len(found)}] {name}: ({step.layer}: {step.hook})")
        write_document(yaml_text(value).removesuffix("...\n"))


@interpret.command("test")
def run_tests(
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Fixture files or directories.")],
    interpreters: InterpretersOption = None,
    manifests: _Manifests = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TEXT,
    watch: Annotated[bool, typer.Option("--watch", help="Run again whenever something changes.")] = False,
) -> None:
    """Run fixtures through all layers, and print what is answered otherwise.

    In a directory, customizations, hook configurations and *.py beside the fixtures are what is tested. The format is
    Karmada's own: documents with name, operation, desiredObj, observedObj, statusItems, inputReplicas and output;
    docs/interpreters.md has a shorter one. Exits 1 if any fails, 2 if a file cannot be read or is no fixture.
    """

    def once() -> list[Verdict]:
        found = find(paths)
        if not found.cases:
            fail("there are no fixtures in what was given")
        objects = [*found.objects, *documents(manifests or [])]
        kinds = {case.fixture.question.kind for case in found.cases}
        write_error(*unasked(found.objects, kinds))

        async def run_all() -> list[Verdict]:
            async with HookClient(allow_private=True) as client:
                chain = build_chain(client, Runner(), [*found.interpreters, *(interpreters or [])], objects)
                return [await judge(chain, case) for case in found.cases]

        verdicts = asyncio.run(run_all())
        print_verdicts(verdicts, output)
        flush()
        return verdicts

    if not watch:
        if not all(verdict.passed for verdict in once()):
            raise typer.Exit(CHECK_FAILED)
        return
    python = [Path(source) for source in interpreters or [] if source.endswith(".py")]
    with contextlib.suppress(KeyboardInterrupt):
        for _ in _changes([*paths, *(manifests or []), *python]):
            with contextlib.suppress(typer.Exit):
                once()


def _changes(paths: Sequence[Path]) -> Iterator[None]:
    """Yield at once, and whenever something changes, until interrupted."""
    yield
    for _ in watchfiles.watch(*paths, raise_interrupt=True):
        write("")
        yield


@interpret.command()
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Customizations, hook configurations (YAML), interpreters (*.py), or directories of them."),
    ],
) -> None:
    """Check customizations, hook configurations and interpreters, and print which rules are set.

    Scripts are compiled and their top level is run; what only looks wrong, such as a global or a way through a function
    that returns nothing, is a warning. Exits 1 if anything is wrong, 2 if a file cannot be read.
    """
    wrong = False
    sources = [path for path in paths if path.suffix == ".py"]
    in_directories = [path for directory in paths if directory.is_dir() for path in sorted(directory.rglob("*.py"))]
    for path in [*sources, *in_directories]:
        for one in loaded([str(path)]):
            operations = ", ".join(sorted(one.functions)) or "nothing"
            write(f"ok   {path}: {one.kind.api_version} {one.kind.kind}: {operations}")
            wrong |= not one.functions
    runner = Runner()
    for document in documents([path for path in paths if path not in sources]):
        key = key_of(document.object)
        found: list[str]
        warnings: list[str] = []
        rules: list[str] = []
        if key.group_kind in CONFIGURATIONS:
            found = [f"{problem.field}: {problem.text}" for problem in problems(key.group_kind, document.object)]
        elif has_scripts(document):
            found, warnings, rules = judged(document, runner)
        else:
            continue
        wrong |= bool(found)
        name = f"{document.source}:{document.line}: {key.group_kind.kind} {key.name}"
        write(f"{'FAIL' if found else 'ok  '} {name}", *(f"     {line}" for line in (*rules, *found)))
        write(*(f"     warning: {line}" for line in warnings))
    if wrong:
        raise typer.Exit(CHECK_FAILED)
