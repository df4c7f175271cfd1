"""The chain of interpreters that `fleethook interpret` asks, the check of the Lua scripts in it, and its fixtures."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from fleethook.api_schema import check_object
from fleethook.cli.exit_codes import CHECK_FAILED, UNREADABLE, fail
from fleethook.cli.fixtures import FixtureCase, FixtureResult, read_cases
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.inputs.manifests import fail_input, find_unused, read_manifests, write_input_errors
from fleethook.cli.inputs.sources import SourceOptions, check_options, read_source
from fleethook.cli.options import FilesArgument, FindingsOutput, FindingsOutputOption, InputOptions
from fleethook.cli.output.findings_output import Row, make_input_row, write_annotations
from fleethook.cli.output.text_output import write, write_error, write_json
from fleethook.cli.parameters import Option
from fleethook.cluster.kubernetes.resources import INTERPRETING, karmada_config
from fleethook.cluster.manifests.manifest_reader import is_directory, list_files
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError
from fleethook.cluster.store import Store, key_of
from fleethook.engines.interpret.chain import Chain, ChainError, Explained
from fleethook.engines.interpret.commands.interpreter_findings import list_rows
from fleethook.engines.interpret.fixtures import Fixture, compare_answer, read_fixtures
from fleethook.engines.interpret.hooks.definition_index import DEFINITIONS_BY_KIND
from fleethook.engines.interpret.hooks.hook_configuration import CONFIGURATIONS, problems
from fleethook.engines.interpret.hooks.webhook_layer import WebhookLayer
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.layers import assemble_chain, make_conventions_layer
from fleethook.engines.interpret.lua.customization_rules import (
    FUNCTIONS,
    ParsedRules,
    describe_object,
    list_findings,
    list_unportable,
)
from fleethook.engines.interpret.lua.lua_layer import Customizations, read_object
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.lua.vm import LuaError, Program
from fleethook.engines.interpret.review.answer_validation import list_unknown_members
from fleethook.interpret.interpreter import Interpreter, LoadError, Question, load
from fleethook.model.formats.field_errors import Problem
from fleethook.model.gvk import DEFINITION, GroupVersionKind
from fleethook.model.json import JSON
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, ConventionsMode
from fleethook.outbound.client import HookClient
from fleethook.patch.fixture_tests import Difference, FixtureError, is_fixture


class ScriptReport(NamedTuple):
    """The result of checking the scripts of one object.

    Attributes:
        problems: Reasons why a script cannot be used.
        warnings: Suspicious code in usable scripts.
        rules: A line for each rule that the object may set.
    """

    problems: list[Problem]
    warnings: list[Problem]
    rules: list[str]


def has_scripts(document: Document) -> bool:
    """Return whether an object is a customization or the ConfigMap ``karmada-config``."""
    key = key_of(document.object)
    return key.group_kind == CUSTOMIZATION or (key.group_kind, key.name) == (CONFIG_MAP, CONFIG_MAP_NAME)


def read_scripts(document: Document) -> ParsedRules:
    """Return the rules of a customization or of ``karmada-config``, and its problems."""
    return read_object(key_of(document.object), document.object)


def is_interpreter(document: Document) -> bool:
    """Return whether an object configures interpreters."""
    return has_scripts(document) or key_of(document.object).group_kind in (*CONFIGURATIONS, DEFINITION)


INTERPRETERS: Final = "customization, webhook configuration or CustomResourceDefinition"
"""The objects of `is_interpreter` in words."""


def find_problems(document: Document, lines: FieldLines) -> list[ManifestError]:
    """Return the problems that make an object unusable, as ``OBJECT: FIELD: PROBLEM`` with file and line."""
    found = [*_list_unknown(document)]
    if has_scripts(document):
        found += [Problem(one.place, one.text) for one in read_scripts(document).problems]
    return [
        ManifestError(
            document.source, lines.line(document, field), f"{describe_object(document.object)}: {field}: {text}"
        )
        for field, text in found
    ]


def _list_unknown(document: Document) -> Iterator[Problem]:
    """Yield the fields, kinds and versions of a file that the API of a customization or configuration lacks."""
    if document.line and (has_scripts(document) or key_of(document.object).group_kind in CONFIGURATIONS):
        yield from (Problem(one.field, one.message) for one in check_object(document.object) if one.level == "error")


def select_usable(documents: Iterable[Document]) -> tuple[list[Document], list[ManifestError]]:
    """Return the objects without problems, and the problems of the others."""
    lines = FieldLines()
    checked = [(document, find_problems(document, lines)) for document in documents]
    return [document for document, found in checked if not found], [one for _, found in checked for one in found]


def warn_untested(documents: Iterable[Document], kinds: set[GroupVersionKind]) -> Iterator[str]:
    """Yield a warning for each object whose scripts answer for none of the ``kinds`` that fixtures ask about."""
    for document in filter(has_scripts, documents):
        own = {rule.kind for rule in read_scripts(document).rules}
        if own and own.isdisjoint(kinds):
            names = ", ".join(sorted(f"{kind.api_version} {kind.kind}" for kind in own))
            text = f"no fixture asks about {names}, for which {describe_object(document.object)} has scripts"
            yield f"{document.source}:{document.line}: warning: {text}"


def check_scripts(document: Document, runner: Runner) -> ScriptReport:
    """Compile the scripts of an object, run their top level and report the result."""
    read = read_scripts(document)
    problems = [Problem(problem.place, problem.text) for problem in read.problems]
    warnings: list[Problem] = []
    refused = {problem.place for problem in read.problems}
    for rule in read.rules:
        warnings += [Problem(rule.place, text) for text in (*list_findings(rule), *list_unportable(rule))]
        problem = _run_top_level(rule.program, rule.function.name, runner)
        if problem:
            problems.append(Problem(rule.place, problem))
            refused.add(rule.place)
    return ScriptReport(problems, warnings, list(_list_rules(document, read, refused)))


def _list_rules(document: Document, read: ParsedRules, refused: set[str]) -> Iterator[str]:
    """Yield a line for each rule that a customization may have, or for each rule of ``karmada-config``."""
    if key_of(document.object).group_kind != CUSTOMIZATION:
        for rule in read.rules:
            state = "refused" if rule.place in refused else "set"
            yield f"{rule.function.operation} of {rule.kind.api_version} {rule.kind.kind}: {state}"
        return
    usable = {rule.function for rule in read.rules if rule.place not in refused}
    for function in FUNCTIONS:
        place = f"spec.customizations.{function.member}"
        is_refused = any(name == place or name.startswith(f"{place}.") for name in refused)
        state = "refused" if is_refused else "set" if function in usable else "not set"
        yield f"{function.operation:<20} {state}"


def _run_top_level(program: Program, name: str, runner: Runner) -> str:
    """Run the top level of a script; return the problem, ``""`` if it defines the function ``name``."""
    try:
        functions = runner.try_at_once(program)
    except LuaError as error:
        return f"its top level fails: {error}"
    return "" if name in functions else f"there is no function {name} after its top level has run"


def list_python_files(paths: Sequence[Path], exclude: Sequence[str]) -> Iterator[Path]:
    """Yield the Python files in directories that may define an interpreter. Other files are not run."""
    directories = [path for path in paths if is_directory(path)]
    for file in list_files(directories, exclude, testdata=True, suffix=".py"):
        if isinstance(file, Path) and _may_define_interpreter(file):
            yield file


def read_rules(karmada: TargetOptions) -> list[Document]:
    """Return customizations, webhook configurations and CRDs of Karmada's control plane, none if it is not given.

    Exits with a message if the control plane cannot be read.
    """
    if not karmada.is_given:
        return []
    cluster = karmada.find()
    options = SourceOptions((), cluster.kubeconfig, cluster.context, cluster.kubeconfig is None)
    check_options(options)
    config = karmada_config(InterpretSettings.model_fields["karmada_namespace"].default)
    return read_source(options, [*INTERPRETING, config]).documents


def _may_define_interpreter(file: Path) -> bool:
    try:
        return b"interpreter" in file.read_bytes()
    except OSError:
        return True


def load_interpreters(sources: Sequence[str]) -> tuple[list[Interpreter], list[ManifestError]]:
    """Return the interpreters in files or modules, and an error for each source that cannot be loaded."""
    found, errors = list[Interpreter](), list[ManifestError]()
    for source in sources:
        try:
            found += load(source)
        except LoadError as error:
            errors.append(make_load_error(source, error))
    return found, errors


def make_load_error(source: str, error: LoadError) -> ManifestError:
    """Return the error of a file or module that cannot be loaded."""
    cause, text = error.__cause__, str(error).removeprefix(f"{source}: ")
    line = (cause.lineno if isinstance(cause, SyntaxError) and cause.filename == source else None) or 0
    return ManifestError(source, line, text)


def build_chain(
    client: HookClient,
    runner: Runner,
    interpreters: Sequence[str],
    objects: Sequence[Document],
    *,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
) -> Chain:
    """Return the chain of all layers, as `build_usable_chain`. Exits with a message if a part cannot be used."""
    chain, errors = build_usable_chain(client, runner, interpreters, objects, bundle=bundle, conventions=conventions)
    if errors:
        fail_input(errors)
    return chain


def build_usable_chain(
    client: HookClient,
    runner: Runner,
    interpreters: Sequence[str],
    objects: Sequence[Document],
    *,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
) -> tuple[Chain, list[ManifestError]]:
    """Return the chain of all layers without the scripts and interpreters that cannot be used, and their problems.

    Args:
        client: Calls interpreter webhooks.
        runner: Runs Lua scripts.
        interpreters: Files or modules of interpreters in Python.
        objects: Customizations, webhook configurations and CustomResourceDefinitions.
        bundle: Whether to include the bundled interpreters.
        conventions: The operations to answer for kinds that nothing else interprets.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=InterpretSettings.model_fields["karmada_namespace"].default)
    hooks = WebhookLayer(store, client)
    loaded, errors = load_interpreters(interpreters)
    usable, problems = select_usable(objects)
    for document in usable:
        store.put(document.object)
    chain = assemble_chain(
        customizations,
        hooks,
        loaded,
        runner,
        bundle=store if bundle else None,
        conventions=make_conventions_layer(store, conventions),
    )
    return chain, [*problems, *errors]


def explain_error(question: Question, error: ChainError) -> str:
    """Return the reason for a missing answer: the error of a layer, or that no layer has the rule."""
    if any(step.outcome != "none" for step in error.steps):
        return str(error)
    kind = f"{question.kind.api_version} {question.kind.kind}"
    layers = ", ".join(step.layer for step in error.steps)
    return f"rule is not set: no layer answers {question.operation} for {kind} (asked: {layers})"


def describe_dropped(question: Question, explained: Explained) -> Iterator[str]:
    """Yield a text for each member of an answer that Karmada drops, with the place of the interpreter."""
    for text in list_unknown_members(question.operation, explained.answer):
        yield f"{explained.place}: Karmada drops a member of the answer: {text}"


EMPTY: Final = "empty-interpreter"


class _Checked(NamedTuple):
    """The result of checking an object or an interpreter.

    Attributes:
        title: The line of the text output about it, after ``ok`` or ``FAIL``.
        report: Problems, warnings and rules; both empty for an interpreter in Python.
        rows: The same problems and warnings with their lines in the file.
        usable: Whether there is no problem.
    """

    title: str
    report: ScriptReport
    rows: list[Row]
    usable: bool


def check(
    files: FilesArgument = None,
    filename: Annotated[
        list[Path] | None,
        Option(
            "--filename",
            "-f",
            help="Customizations and webhook configurations (YAML), interpreters (*.py), or directories of them; "
            "'-' for standard input; may be repeated.",
        ),
    ] = None,
    karmada: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    output: FindingsOutputOption = FindingsOutput.TEXT,
) -> None:
    """Check customizations, webhook configurations and interpreters, and print the rules that they set.

    They are in FILES, in Karmada's control plane (--kubeconfig, --context, --in-cluster), or in both.

    Scripts are compiled, and their top level is run. Suspicious code is a warning, for example a global variable, or a
    path through a function that returns nothing. `--output json`, and `--output github` for pull requests, print only
    the problems and warnings.

    Exit codes: 0 success; 1 problems found; 2 invalid arguments or unreadable input.
    """
    paths = [*(files or ()), *(filename or ())]
    if not paths and not karmada.is_given:
        fail("give customizations or interpreters to check: -f FILE, --kubeconfig FILE or --in-cluster")
    rules = read_rules(karmada)
    usable, errors = True, list[ManifestError]()
    rows: list[Row] = []
    for one in _check_all(paths, rules, reading):
        if isinstance(one, ManifestError):
            errors.append(one)
            continue
        usable = usable and one.usable and not (reading.strict and one.report.warnings)
        rows += one.rows
        if output is FindingsOutput.TEXT:
            _print(one)
    write_input_errors(errors)
    if output is FindingsOutput.JSON:
        write_json([*map(make_input_row, errors), *rows])
    elif output is FindingsOutput.GITHUB:
        write_annotations(rows, errors)
    if errors:
        raise SystemExit(UNREADABLE)
    if not usable:
        raise SystemExit(CHECK_FAILED)


def _check_all(
    paths: Sequence[Path], rules: Sequence[Document], reading: InputOptions
) -> Iterator[_Checked | ManifestError]:
    """Yield the result for each interpreter in Python, and then for each object, and an error for unreadable input."""
    sources = [path for path in paths if path.suffix == ".py"]
    for path in (*sources, *list_python_files(paths, reading.exclude or ())):
        try:
            yield from _check_python(path)
        except LoadError as error:
            yield make_load_error(str(path), error)
    runner, lines = Runner(), FieldLines()
    manifests = [path for path in paths if path not in sources]
    read = read_manifests(manifests, reading)
    yield from read.errors
    used = {one.source for one in read.errors}
    for document in (*read.documents, *rules):
        if (checked := _check_object(document, runner, lines)) is not None:
            used.add(document.source)
            yield checked
    yield from find_unused(manifests, used, "customization, webhook configuration or interpreter", reading)


def _check_python(path: Path) -> Iterator[_Checked]:
    """Yield the result for each interpreter in a file: whether it has at least one operation; raises LoadError."""
    for one in load(str(path)):
        kind = f"{one.kind.api_version} {one.kind.kind}"
        operations = ", ".join(sorted(one.functions)) or "nothing"
        text = "the interpreter has no operation: decorate a function with one"
        row = Row("error", EMPTY, "", kind, "", path.name, webhook="", field="", text=text, place=f"{path}:1")
        found = [] if one.functions else [row]
        yield _Checked(f"{path}: {kind}: {operations}", ScriptReport([], [], []), found, bool(one.functions))


def report_problems(document: Document, runner: Runner) -> ScriptReport:
    """Return the problems of a customization or a webhook configuration; none for any other object."""
    key = key_of(document.object)
    if key.group_kind in CONFIGURATIONS:
        return ScriptReport([*problems(key.group_kind, document.object)], [], [])
    return check_scripts(document, runner) if has_scripts(document) else ScriptReport([], [], [])


def _check_object(document: Document, runner: Runner, lines: FieldLines) -> _Checked | None:
    """Return the result for a customization or a webhook configuration, None for any other object."""
    key = key_of(document.object)
    if key.group_kind not in CONFIGURATIONS and not has_scripts(document):
        return None
    report = report_problems(document, runner)
    known = {one.field for one in report.problems}
    report.problems.extend(one for one in _list_unknown(document) if one.field not in known)

    found = list_rows(document, report, lines)
    subject = f"{key.group_kind.kind} {key.name}"
    return _Checked(f"{document.place}: {subject}", report, found, not report.problems)


def _print(one: _Checked) -> None:
    report = one.report
    word = "ok  " if one.usable else "FAIL"
    write(f"{word} {one.title}", *(f"     {line}" for line in report.rules))
    write(*(f"     {_describe(problem)}" for problem in report.problems))
    write(*(f"     warning: {_describe(problem)}" for problem in report.warnings))


def _describe(problem: Problem) -> str:
    return f"{problem.field}: {problem.text}"


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
    """Return the fixtures in files and directories, and the interpreters under test."""
    python = [path for path in paths if path.suffix == ".py" and not is_directory(path)]
    manifests = [path for path in paths if path not in python]
    read = read_manifests(manifests, reading, testdata=True, select=is_fixture)
    cases, errors = read_cases(read.selected, _read_tests)
    documents = [*read.selected, *filter(is_interpreter, read.documents)]
    used = {one.source for one in documents} | {one.source for one in read.errors}
    unused = find_unused(manifests, used, f"fixture, {INTERPRETERS}", reading)
    interpreters = list(map(str, (*python, *list_python_files(paths, reading.exclude or ()))))
    return FixtureSet(cases, read.documents, interpreters, [*read.errors, *errors, *unused])


def _read_tests(document: JSON, errors: list[FixtureError]) -> Iterator[tuple[int, Fixture]]:
    return ((one.test, one) for one in read_fixtures(document, errors))


async def run_fixture(chain: Chain, case: FixtureCase[Fixture]) -> FixtureResult:
    """Ask the chain the question of a fixture, and compare the answer."""
    started = time.perf_counter()
    layer, failure, found = "", "", list[Difference]()
    question = case.fixture.question
    try:
        explained = await chain.answer(question)
        layer = explained.steps[-1].layer
        found = list(compare_answer(case.fixture, explained.answer))
        write_error(*(f"{case.path}:{case.line}: warning: {one}" for one in describe_dropped(question, explained)))
    except ChainError as error:
        layer, failure = error.steps[-1].layer if error.steps else "", explain_error(question, error)
    seconds = time.perf_counter() - started
    operation = question.operation.value
    return FixtureResult(str(case.path), case.line, case.fixture.name, operation, layer, seconds, failure, found)
