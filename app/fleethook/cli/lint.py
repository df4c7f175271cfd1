"""``fleethook lint``: find mistakes in overriders, their subjects and webhook configurations."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from fleethook.api_schema import read_definitions
from fleethook.cli.command_line import CHECK_FAILED, UNREADABLE, Option, fail
from fleethook.cli.inputs.manifests import write_input_errors
from fleethook.cli.inputs.objects_with_changes import SourceOptions, fill_store, read_source, select_dispatching
from fleethook.cli.options import FilenameOption, FilesArgument, FindingsOutputOption, InputOptions, Output
from fleethook.cli.output.findings_output import (
    FindingRow,
    has_failures,
    make_input_row,
    print_text,
    select_new,
    write_annotations,
)
from fleethook.cli.output.text_output import write_error, write_json
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.cluster.manifests.manifest_files import check_objects, list_files, name_source
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError
from fleethook.engine import list_linting, load_reference


def lint(
    files: FilesArgument = None,
    filename: FilenameOption = None,
    live: SourceOptions = SourceOptions(),
    new: Annotated[bool, Option("--new", help="Report only findings that --change causes.")] = False,
    reading: InputOptions = InputOptions(),
    output: FindingsOutputOption = Output.TEXT,
) -> None:
    """Find overriders that are refused or have no effect, and webhooks that never fire or block themselves.

    YurtAppOverriders, YurtAppSets and YurtAppDaemons get the findings of admission, with file and line. These are
    errors: a finding that admission refuses, an overrider whose subject does not exist, and an entry for a node pool
    that its subject lacks. Admission only warns about a missing object, because it may be created later. Without any
    subject, missing subjects are warnings here, too.

    ResourceInterpreterCustomizations, the ConfigMap karmada-config and webhook configurations of Karmada get the
    findings of their admission, and warnings about suspicious code in scripts.

    Kinds, versions and fields that an API lacks are findings in objects of all kinds of Kubernetes, OpenYurt, kcp and
    Karmada. CustomResourceDefinitions among the objects decide about their kinds.

    The objects are in FILES or in a cluster. --change changes them first, and --new then reports
    only the findings that the change causes.

    Prints nothing if there are no findings; `--output json` prints an empty list. `--output github`
    makes GitHub show the findings beside the lines of a pull request.

    Documents that are no Kubernetes objects are skipped. Documents that cannot be read are errors; all others are
    checked.

    Exit codes: 0 success; 1 errors, or no objects with --strict; 2 invalid arguments or unreadable input.
    """
    options = live.beside(files, filename, reading=reading)
    if new and not options.change:
        fail("--new needs --change")
    resources = [*RESOURCES, *select_dispatching(kcp=live.kcp or live.kcp_export is not None)]
    source = read_source(options, resources, every_kind=True, partial=True)
    write_input_errors(source.errors)
    is_empty = not (source.documents or source.errors or options.reads_cluster)
    if is_empty:
        write_error(f"note: found no Kubernetes objects {_describe_examined(options)}")
    rows = lint_documents(source.documents, options)
    if new and rows:
        rows = select_new(rows, lint_documents(source.before, options))
    report_findings(rows, source.errors, output, strict=reading.strict)
    if is_empty and reading.strict:
        raise SystemExit(CHECK_FAILED)


def report_findings(
    rows: Sequence[FindingRow], errors: Sequence[ManifestError], output: Output, *, strict: bool
) -> None:
    """Write findings and unreadable input to standard output, and exit with their code if there are some."""
    if output is Output.JSON:
        write_json([*map(make_input_row, errors), *rows])
    elif output is Output.TEXT:
        print_text(rows)
    else:
        write_annotations(rows, errors)
    if errors:
        raise SystemExit(UNREADABLE)
    if has_failures(rows, strict=strict):
        raise SystemExit(CHECK_FAILED)


def _describe_examined(options: SourceOptions) -> str:
    """Return the files without objects in words."""
    excluded = options.reading.exclude or ()
    count = sum(isinstance(file, Path) for file in list_files(options.files, excluded))
    unexamined = f"no file is named *.json, *.yaml or *.yml{', or all are excluded' if excluded else ''}"
    examined = f"examined {count} file{'s' * (count != 1)}" if count else unexamined
    namespace = f"of namespace {options.namespace} " if options.namespace else ""
    return f"{namespace}in {', '.join(map(name_source, options.files))}: {examined}"


def lint_documents(documents: Sequence[Document], options: SourceOptions | None) -> list[FindingRow]:
    """Return the findings of all engines about objects, and those about kinds and members that their APIs lack.

    Without options, nothing asks a cluster.
    """
    engines = list_linting()
    store = fill_store(
        documents, [index for engine in engines if engine.indexes for index in load_reference(engine.indexes)]
    )
    rows = [row for engine in engines for row in load_reference(engine.lint)(documents, store, options)]
    return _unite([*_check_schemas(documents)], rows)


def _unite(of_schemas: Sequence[FindingRow], of_rules: Sequence[FindingRow]) -> list[FindingRow]:
    """Return findings with only one about each field: that of a rule.

    An apiserver cannot decode an object with a wrong type, so its rules about the object have no meaning then.
    """
    mistyped = {(_identify(row), row.field) for row in of_schemas if row.code == "invalid"}
    undecodable = {identity for identity, _ in mistyped}
    rules = [
        row
        for row in of_rules
        if (_identify(row), row.field) not in mistyped and (row.field or _identify(row) not in undecodable)
    ]
    # The text of an apiserver begins with the field.
    reported = {(_identify(row), row.field or row.text.partition(": ")[0]) for row in rules}
    return [*(row for row in of_schemas if (_identify(row), row.field) not in reported), *rules]


def _identify(row: FindingRow) -> tuple[str, ...]:
    return row.cluster, row.kind, row.namespace, row.name


def _check_schemas(documents: Sequence[Document]) -> Iterator[FindingRow]:
    definitions = read_definitions(document.object for document in documents)
    for key, (level, code, field, text), place in check_objects(documents, definitions):
        identity = (level, code, key.cluster, key.group_kind.kind, key.namespace, key.name)
        yield FindingRow(*identity, webhook="", field=field, text=text, place=place)
