"""``fleethook interpret``: run, test and convert interpreters."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from fleethook.cli.command_line import CHECK_FAILED, Argument, CommandGroup, Option, fail
from fleethook.cli.fixture_results import (
    FixtureCase,
    FixtureResult,
    WatchOption,
    make_error_result,
    print_results,
    run_and_exit,
)
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.inputs.manifests import (
    fail_input,
    find_unused,
    read_manifests,
    read_objects,
    read_values,
    write_input_errors,
)
from fleethook.cli.inputs.objects_with_changes import replace_objects
from fleethook.cli.options import (
    FilesArgument,
    InputOptions,
    InterpretersOption,
    Output,
    ResolveOption,
    TestsOutputOption,
    YamlOutputOption,
)
from fleethook.cli.output.text_output import write, write_document, write_error, write_json
from fleethook.cluster.manifests.manifest_files import RULES
from fleethook.cluster.manifests.yaml_scalars import yaml_text
from fleethook.engine import CommandSpec
from fleethook.engines.interpret.commands.interpret_inputs import (
    INTERPRETERS,
    FixtureSet,
    build_chain,
    find_fixtures,
    is_interpreter,
    read_rules,
)
from fleethook.engines.interpret.interpreter_chain import Chain, ChainError, ChainStep, Explained, explain_error
from fleethook.engines.interpret.interpreter_fixtures import (
    Fixture,
    compare_answer,
    find_operation,
    make_question,
    name_results,
    warn_untested,
)
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.review.answer_validation import list_unknown_members
from fleethook.fixture_format import Difference, FixtureError
from fleethook.interpret.interpreter import InterpretError, Question
from fleethook.model.formats.client_config_and_addresses import FixedAddresses, parse_fixed_addresses
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import ConventionsMode, Operation
from fleethook.outbound.calls_and_retries import HookClient

_Rules = Annotated[
    list[Path] | None,
    Option(
        "--filename",
        "-f",
        help="File or directory of customizations, webhook configurations and CRDs to use; may be repeated.",
    ),
]

_Conventions = Annotated[
    ConventionsMode,
    Option(
        "--conventions",
        help="Operations to answer by the conventions of Kubernetes, for custom resources that no interpreter knows. "
        "The same as the setting interpret_conventions.",
    ),
]


def _read_addresses(entries: list[str] | None) -> FixedAddresses:
    """Return the addresses of ``--resolve``. Exits with a message if one is malformed."""
    try:
        return parse_fixed_addresses(entries or ())
    except ValueError as error:
        fail(f"--resolve {error}")


def _read_object(path: Path | None) -> JSON:
    if path is None:
        return None
    values = read_values(path)
    if len(values) != 1:
        fail(f"{path} holds {len(values)} documents, expected one")
    return values[0].value


def _read_status_items(path: Path | None) -> list[JSON]:
    """Return the documents of a file, or the items of the list that is its only document."""
    items = [] if path is None else [value.value for value in read_values(path)]
    return items[0] if len(items) == 1 and isinstance(items[0], list) else items


def run(
    operation: Annotated[
        str,
        Option(help="Operation such as InterpretHealth or Retain, or ExploreHealthy or ExploreRetaining."),
    ],
    files: FilesArgument = None,
    filenames: Annotated[
        list[Path] | None,
        Option(
            "--filename",
            "-f",
            help="File or directory of the object to ask about, and of customizations, webhook configurations and CRDs "
            "to use; '-' for standard input; may be repeated.",
        ),
    ] = None,
    desired_file: Annotated[Path | None, Option(help="Object to ask about; '-' for stdin.")] = None,
    observed_file: Annotated[Path | None, Option(help="Object as observed in a member cluster.")] = None,
    status_file: Annotated[Path | None, Option(help="AggregatedStatusItems, as YAML documents or as a list.")] = None,
    desired_replica: Annotated[int | None, Option(help="Desired number of replicas.")] = None,
    interpreters: InterpretersOption = None,
    conventions: _Conventions = ConventionsMode.OFF,
    resolve: ResolveOption = None,
    karmada: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    output: YamlOutputOption = Output.YAML,
) -> None:
    """Ask all layers one question, and print the answer and the layer that gave it.

    Customizations, webhook configurations and CRDs come from files (-f), or from Karmada's control plane (--kubeconfig,
    --context, --in-cluster). Those of files replace others of the same name. The command calls webhooks, and writes
    nothing.

    Output of a script's print function goes to standard error.

    Exit codes: 0 success; 1 no layer answered, or one failed; 2 invalid arguments or unreadable input.
    """
    items = _read_status_items(status_file)
    paths = [*(files or ()), *(filenames or ())]
    python = [str(path) for path in paths if path.suffix == RULES]
    given = read_objects([path for path in paths if str(path) not in python], reading)
    desired, observed = _read_object(desired_file), _read_object(observed_file)
    rules = read_rules(karmada)
    if unused := find_unused(
        paths, {*python, *(document.source for document in given)}, f"object to ask about, {INTERPRETERS}", reading
    ):
        fail_input(unused)
    objects = [document.object for document in given if not is_interpreter(document)]
    if len(objects) + (desired_file is not None) > 1:
        fail("-f and --desired-file give several objects to ask about: give only one")
    try:
        asked = make_question(
            _check_options(
                find_operation(operation),
                {
                    "--status-file": status_file is not None and Operation.AGGREGATE_STATUS,
                    "--desired-replica": desired_replica is not None and Operation.REVISE_REPLICA,
                    # Without the desired object, each operation is about the observed one.
                    "--observed-file": observed_file is not None and bool(objects or desired) and Operation.RETAIN,
                },
            ),
            desired=objects[0] if objects else desired,
            observed=observed,
            items=items,
            replicas=desired_replica,
        )
    except FixtureError as error:
        fail(str(error))
    runner = Runner()
    under_test, addresses = replace_objects(rules, list(filter(is_interpreter, given))), _read_addresses(resolve)

    async def answer() -> Explained:
        async with HookClient(allow_private=True, fixed=addresses) as client:
            sources = [*python, *(interpreters or ())]
            chain, unusable = build_chain(client, runner, sources, under_test, conventions=conventions)
            if unusable:
                fail_input(unusable)
            return await chain.answer(asked)

    try:
        explained = asyncio.run(answer())
    except ChainError as error:
        fail(f"{asked.operation}: {explain_error(asked, error)}", code=CHECK_FAILED)
    except InterpretError as error:
        fail(f"{asked.operation}: {error}", code=CHECK_FAILED)
    finally:
        write_error(*runner.printed())
    _print_answer(name_results(asked, explained.answer), explained.steps[-1], output)
    dropped = [*_describe_dropped(asked, explained)]
    if reading.strict and dropped:
        fail(*dropped, code=CHECK_FAILED)
    write_error(*(f"warning: {one}" for one in dropped))


def _check_options(operation: Operation, using: Mapping[str, Operation | bool]) -> Operation:
    """Return the operation. Exits with a message for an option that only another operation uses."""
    for option, user in using.items():
        if user and user is not operation:
            fail(f"{operation} does not use {option}, only {user} does: leave it out")
    return operation


def _print_answer(found: JSONObject, step: ChainStep, output: Output) -> None:
    if output is Output.JSON:
        reason = {"rule": step.detail} if step.detail else {}
        write_json({"layer": step.layer, "hook": step.hook, **reason, "results": found})
        return
    rule = f": {step.detail}" if step.detail else ""
    for position, (name, value) in enumerate(found.items(), start=1):
        write("---", f"# [{position}/{len(found)}] {name}: ({step.layer}: {step.hook}{rule})")
        write_document(yaml_text(value).removesuffix("...\n"))


def run_tests(
    paths: Annotated[list[Path], Argument(metavar="PATHS...", help="Files or directories of fixtures, interpreters.")],
    interpreters: InterpretersOption = None,
    conventions: _Conventions = ConventionsMode.OFF,
    resolve: ResolveOption = None,
    manifests: _Rules = None,
    karmada: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    output: TestsOutputOption = Output.TEXT,
    watch: WatchOption = False,
) -> None:
    """Run fixtures through all layers, and print the answers that differ.

    A fixture is a YAML document in Karmada's format, with name, operation, desiredObj, observedObj, statusItems,
    inputReplicas and output. docs/lua.md describes a shorter format. The customizations, webhook configurations and
    *.py files of PATHS are under test. So are those of -f, and of Karmada's control plane (--kubeconfig, --context,
    --in-cluster); those of files replace others of the same name. A file that the command does not use is an error.

    Exit codes: 0 success; 1 a fixture failed; 2 invalid arguments, unreadable input or an invalid fixture.
    """
    addresses = _read_addresses(resolve)

    def run_once() -> list[FixtureResult]:
        subjects = _read_subjects(paths, manifests or [], karmada, reading)

        async def run_all() -> list[FixtureResult]:
            async with HookClient(allow_private=True, fixed=addresses) as client:
                sources = [*subjects.interpreters, *(interpreters or ())]
                chain, unusable = build_chain(client, Runner(), sources, subjects.objects, conventions=conventions)
                subjects.errors.extend(unusable)
                return [await run_fixture(chain, case, strict=reading.strict) for case in subjects.cases]

        results = asyncio.run(run_all())
        write_input_errors(subjects.errors)
        # An unreadable document is a result without operation.
        unreadable = [*map(make_error_result, subjects.errors)]
        shown = [] if output is Output.TEXT else unreadable
        print_results([*shown, *results], output, command="fleethook interpret", layer="layer")
        return [*unreadable, *results]

    python = [Path(source) for source in interpreters or [] if source.endswith(".py")]
    run_and_exit(run_once, watch=[*paths, *(manifests or []), *python] if watch else None)


async def run_fixture(chain: Chain, case: FixtureCase[Fixture], *, strict: bool = False) -> FixtureResult:
    """Ask the chain the question of a fixture, and compare the answer. With ``strict``, a warning is a failure."""
    started = time.perf_counter()
    layer, failure, found = "", "", list[Difference]()
    question = case.fixture.question
    try:
        explained = await chain.answer(question)
        layer = explained.steps[-1].layer
        found = list(compare_answer(case.fixture, explained.answer))
        dropped = [*_describe_dropped(question, explained)]
        failure = "; ".join(dropped) if strict else ""
        write_error(*(f"{case.path}:{case.line}: warning: {one}" for one in ([] if strict else dropped)))
    except ChainError as error:
        layer, failure = error.steps[-1].layer if error.steps else "", explain_error(question, error)
    seconds = time.perf_counter() - started
    operation = question.operation.value
    return FixtureResult(str(case.path), case.line, case.fixture.name, operation, layer, seconds, failure, found)


def _describe_dropped(question: Question, explained: Explained) -> Iterator[str]:
    """Yield a text for each member of an answer that Karmada drops, with the place of the interpreter."""
    for text in list_unknown_members(question.operation, explained.answer):
        yield f"{explained.place}: Karmada drops a member of the answer: {text}"


def _read_subjects(
    paths: Sequence[Path], manifests: Sequence[Path], karmada: TargetOptions, reading: InputOptions
) -> FixtureSet:
    """Return the fixtures, and the interpreters under test. Exits with a message without fixtures and errors."""
    rules = read_rules(karmada)
    fixtures = find_fixtures(paths, reading)
    read = read_manifests(manifests, reading)
    used = {document.source for document in read.documents if is_interpreter(document)} | {
        error.source for error in read.errors
    }
    errors = [*fixtures.errors, *read.errors, *find_unused(manifests, used, INTERPRETERS, reading)]
    if not fixtures.cases and not errors:
        fail(f"no fixtures in {', '.join(map(str, paths))}")
    write_error(*warn_untested(fixtures.objects, {case.fixture.question.kind for case in fixtures.cases}))
    return fixtures._replace(objects=replace_objects(rules, [*fixtures.objects, *read.documents]), errors=errors)


interpret = CommandGroup(
    "Run, test and convert resource interpreters: Lua, webhooks, Python, native.",
    {
        "convert": CommandSpec(
            "fleethook.engines.interpret.commands.interpret_convert_files:convert",
            "Convert health checks of Argo CD to ResourceInterpreterCustomizations with fixtures.",
        ),
        "run": run,
        "test": run_tests,
    },
)
