"""``fleethook interpret check``: find mistakes in scripts, webhook configurations and interpreters in Python."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from fleethook.cli.exit_codes import CHECK_FAILED, UNREADABLE, fail
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.inputs.manifests import read_manifests, write_input_errors
from fleethook.cli.options import FilesArgument, InputOptions
from fleethook.cli.output.ci_output import (
    Annotation,
    AnnotationFormat,
    annotate_document,
    annotate_errors,
    write_annotations,
)
from fleethook.cli.output.terminal import write
from fleethook.cli.parameters import Option
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError
from fleethook.cluster.store import key_of
from fleethook.engines.interpret.commands.interpret_chain import (
    ScriptReport,
    check_scripts,
    has_scripts,
    list_python_files,
    make_load_error,
    read_rules,
)
from fleethook.engines.interpret.hooks.hook_configuration import CONFIGURATIONS, problems
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.interpret.python_interpreter import LoadError, load
from fleethook.model.formats.field_errors import Problem

INVALID: Final = "invalid-interpreter"
SUSPICIOUS: Final = "suspicious-interpreter"
EMPTY: Final = "empty-interpreter"


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    SARIF = "sarif"
    GITHUB = "github"


class _Checked(NamedTuple):
    """The result of checking an object or an interpreter.

    Attributes:
        title: The line of the text output about it, after ``ok`` or ``FAIL``.
        report: Problems, warnings and rules; both empty for an interpreter in Python.
        annotations: The same problems and warnings with their lines in the file.
        usable: Whether there is no problem.
    """

    title: str
    report: ScriptReport
    annotations: list[Annotation]
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
    output: Annotated[Output, Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """Check customizations, webhook configurations and interpreters, and print the rules that they set.

    They are in FILES, in Karmada's control plane (--kubeconfig, --context, --in-cluster), or in both.

    Scripts are compiled, and their top level is run. Suspicious code is a warning, for example a global variable, or a
    path through a function that returns nothing. `--output sarif` for code scanning and `--output github` for pull
    requests print only the problems and warnings.

    Exit codes: 0 success; 1 problems found; 2 invalid arguments or unreadable input.
    """
    paths = [*(files or ()), *(filename or ())]
    if not paths and not karmada.is_given:
        fail("give customizations or interpreters to check: -f FILE, --kubeconfig FILE or --in-cluster")
    rules = read_rules(karmada)
    usable, errors = True, list[ManifestError]()
    annotations: list[Annotation] = []
    for one in _check_all(paths, rules, reading):
        if isinstance(one, ManifestError):
            errors.append(one)
            continue
        usable = usable and one.usable and not (reading.strict and one.report.warnings)
        annotations += one.annotations
        if output is Output.TEXT:
            _print(one)
    write_input_errors(errors)
    if output is not Output.TEXT:
        write_annotations([*annotate_errors(errors), *annotations], AnnotationFormat(output))
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
    read = read_manifests([path for path in paths if path not in sources], reading)
    yield from read.errors
    for document in (*read.documents, *rules):
        if (checked := _check_object(document, runner, lines)) is not None:
            yield checked


def _check_python(path: Path) -> Iterator[_Checked]:
    """Yield the result for each interpreter in a file: whether it has at least one operation; raises LoadError."""
    for one in load(str(path)):
        kind = f"{one.kind.api_version} {one.kind.kind}"
        operations = ", ".join(sorted(one.functions)) or "nothing"
        text = "the interpreter has no operation: decorate a function with one"
        found = [] if one.functions else [Annotation("error", EMPTY, kind, text, str(path), 1)]
        yield _Checked(f"{path}: {kind}: {operations}", ScriptReport([], [], []), found, bool(one.functions))


def _check_object(document: Document, runner: Runner, lines: FieldLines) -> _Checked | None:
    """Return the result for a customization or a webhook configuration, None for any other object."""
    key = key_of(document.object)
    if key.group_kind in CONFIGURATIONS:
        report = ScriptReport([*problems(key.group_kind, document.object)], [], [])
    elif has_scripts(document):
        report = check_scripts(document, runner)
    else:
        return None

    def annotate(level: str, code: str, problem: Problem) -> Annotation:
        line = lines.line(document, problem.field)
        text = _describe(problem)
        return annotate_document(document, level=level, code=code, subject=subject, text=text, line=line)

    subject = f"{key.group_kind.kind} {key.name}"
    found = [annotate("error", INVALID, one) for one in report.problems]
    found += [annotate("warning", SUSPICIOUS, one) for one in report.warnings]
    return _Checked(f"{document.place}: {subject}", report, found, not report.problems)


def _print(one: _Checked) -> None:
    report = one.report
    word = "ok  " if one.usable else "FAIL"
    write(f"{word} {one.title}", *(f"     {line}" for line in report.rules))
    write(*(f"     {_describe(problem)}" for problem in report.problems))
    write(*(f"     warning: {_describe(problem)}" for problem in report.warnings))


def _describe(problem: Problem) -> str:
    return f"{problem.field}: {problem.text}"
