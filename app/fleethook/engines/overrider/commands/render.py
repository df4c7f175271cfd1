"""``fleethook render``: the workload of every node pool, before anything is applied."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from fleethook.cli.command_line import CHECK_FAILED, Option, fail
from fleethook.cli.inputs.manifests import fail_input
from fleethook.cli.inputs.objects_with_changes import SourceOptions, fill_store, read_source
from fleethook.cli.options import FilenameOption, FilesArgument, InputOptions, Output, declare_output
from fleethook.cli.output.findings_output import FindingRow, count_levels, has_failures, print_lines, select_new
from fleethook.cli.output.text_output import (
    Styled,
    styled,
    write,
    write_document,
    write_error,
    write_json,
    write_styled,
)
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.manifests.yaml_scalars import yaml_text
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.engines.overrider.commands.overrider_lint import check_on_server, make_overrider_row
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.list_elements_and_order import Identity, describe_identity, index_elements
from fleethook.engines.overrider.render.template_delta import schema_at
from fleethook.engines.overrider.rollout.pool_previews_and_changes import (
    CellKey,
    FieldChange,
    PoolChange,
    PoolWorkload,
    Preview,
    cell_key,
    cells,
    compare_previews,
    find_unaffected,
    preview,
)
from fleethook.engines.overrider.rules.findings_in_files import check_documents
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import GroupKind, guess_plural
from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch import parse_pointer

SubjectOption = Annotated[
    str | None,
    Option("--subject", metavar="KIND/NAME", help="Take only this YurtAppSet or YurtAppDaemon: KIND/NAMESPACE/NAME."),
]


class ObjectName(NamedTuple):
    """A name that a user wrote. Each part that is None matches all objects.

    Attributes:
        text: The name as written.
        kind: Kind or plural in lower case.
        group: API group.
        namespace: Namespace.
        name: Name of the object.
        cluster: Logical cluster.
    """

    text: str
    kind: str
    group: str | None
    namespace: str | None
    name: str
    cluster: str | None

    def matches(self, key: ObjectKey) -> bool:
        """Return whether this is a name of the object."""
        return (
            self.matches_kind(key.group_kind)
            and self.name == key.name
            and self.namespace in (None, key.namespace, *(() if key.namespace else ("default",)))
            and self.cluster in (None, key.cluster)
        )

    def matches_kind(self, group_kind: GroupKind) -> bool:
        """Return whether this is a name of an object of the kind."""
        kind = group_kind.kind.lower()
        return self.kind in (kind, guess_plural(kind)) and self.group in (None, group_kind.group)


def parse_subject(text: str) -> ObjectName:
    """Return the parts of a name. Exits with a message if it has another form."""
    kinded, _, cluster = text.partition("@")
    parts = kinded.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        fail(f"--subject {text}: expected KIND/NAME, as in YurtAppSet/default/demo")
    kind, separator, group = parts[0].partition(".")
    namespace = parts[1] if len(parts) == 3 else None
    return ObjectName(text, kind.lower(), group if separator else None, namespace, parts[-1], cluster or None)


_OutputOption = Annotated[Output, declare_output(Output.YAML, Output.JSON, Output.DIFF)]


def _print_yaml(previews: Sequence[Preview]) -> None:
    for one in previews:
        overrider = f", by {one.overrider}" if one.changes else ""
        write("---", f"# {one.subject}, node pool {one.pool}{overrider}")
        write_document(yaml_text(one.workload))


def _print_json(previews: Sequence[Preview]) -> None:
    write_json(
        [{**preview._asdict(), "changes": [change._asdict() for change in preview.changes]} for preview in previews]
    )


def _print_diff(previews: Sequence[Preview]) -> None:
    for one in previews:
        write_styled(_format_title(one))
        if not one.changes:
            write_styled(styled("  as the template", "dim"))
        _print_differences(one.changes)


def _format_title(preview: Preview) -> Styled:
    overrider = f" by {preview.overrider}" if preview.overrider else ""
    return styled(f"{preview.subject}, node pool {preview.pool}, {preview.kind}{overrider}", "bold")


def _print_differences(changes: Sequence[FieldChange]) -> None:
    for change in changes:
        write_styled(styled(f"  {change.path}"), styled(f"  # {change.source or 'template'}", "cyan"))
        orders = _find_orders(change)
        for sign, style, value in (("-", "red", orders[0]), ("+", "green", orders[1])):
            if value is not None:
                write_styled(styled(_prefix_lines(sign, value), style, keep="\n"))


def _find_orders(change: FieldChange) -> tuple[JSON, JSON]:
    """Return the values of a change; for a list with another order, only the names of its elements in both orders."""
    schema = schema_at(tuple(token for token in parse_pointer(change.path) if not token.isdecimal()))
    before, after = (index_elements(one, schema) for one in (change.before, change.after))
    if before is None or after is None:
        return change.before, change.after
    names = ("; ".join(_name_element(one, schema) for one in order) for order in (before, after))
    former, now = ({"order": text} for text in names)
    return former, now


def _name_element(identity: Identity, schema: MergeSchema) -> str:
    return str(identity[0]) if len(schema.identity) == 1 else describe_identity(identity, schema)[1:-1]


def _prefix_lines(sign: str, value: JSON) -> str:
    """Return a value as YAML with the sign of a diff before each line."""
    text = yaml_text(value).removesuffix("...\n").rstrip("\n")
    return "\n".join(f"    {sign} {line}" for line in text.split("\n"))


def print_changes(changes: Sequence[PoolChange], output: Output) -> None:
    """Write the workloads that a change affects to standard output.

    YAML has the workloads after the change, JSON both, and a diff the fields that differ.
    """
    if output is Output.JSON:
        write_json([describe_change(change) for change in changes])
    elif output is Output.DIFF:
        for pool_change in changes:
            write_styled(_format_title(pool_change.preview))
            if pool_change.before is None or pool_change.after is None:
                write_styled(styled("  new", "green") if pool_change.before is None else styled("  gone", "red"))
            _print_differences(pool_change.changes)
    else:
        for one in changes:
            if one.after is None:
                write("---", f"# {one.preview.subject}, node pool {one.preview.pool}, {one.preview.kind}: gone")
            else:
                _print_yaml([one.after])


def describe_change(change: PoolChange) -> JSONObject:
    """Return the change of a node pool's workload, as ``render --change --output json`` prints it."""
    shown = change.preview
    return {
        "subject": shown.subject,
        "overrider": shown.overrider,
        "pool": shown.pool,
        "kind": shown.kind,
        "before": None if change.before is None else change.before.workload,
        "workload": None if change.after is None else change.after.workload,
        "changes": [field_change._asdict() for field_change in change.changes],
        "warnings": shown.warnings,
    }


_PRINTERS: Final[Mapping[Output, Callable[[Sequence[Preview]], None]]] = {
    Output.YAML: _print_yaml,
    Output.JSON: _print_json,
    Output.DIFF: _print_diff,
}


class _Matrix(NamedTuple):
    """The node pools of all subjects.

    Attributes:
        documents: The objects.
        store: Holds the same objects.
        cells: The workloads to render.
        every: The keys of all workloads.
    """

    documents: Sequence[Document]
    store: Store
    cells: dict[CellKey, PoolWorkload]
    every: Sequence[CellKey]


class _Rendered(NamedTuple):
    """Rendered workloads.

    Attributes:
        previews: Workloads that can be rendered.
        failed: Workloads that cannot.
        rows: Findings, also about the latter.
    """

    previews: dict[CellKey, Preview]
    failed: list[CellKey]
    rows: list[FindingRow]


def render(
    files: FilesArgument = None,
    filename: FilenameOption = None,
    live: SourceOptions = SourceOptions(),
    subject: SubjectOption = None,
    pool: Annotated[str | None, Option(help="Render only this node pool.")] = None,
    reading: InputOptions = InputOptions(),
    output: _OutputOption = Output.YAML,
) -> None:
    """Print the workload of every node pool, before you apply anything.

    YurtAppSets, YurtAppDaemons, NodePools and YurtAppOverriders are in FILES or in a cluster. `--output diff` shows the
    changes that the overrider makes, and the entry that set each field.

    With --change, only the workloads that the change affects are printed, and `--output diff` compares
    them with those before the change. Only findings that the change causes are reported.

    Findings go to standard error, with file and line, in the words of admission. These are errors: a finding that
    admission refuses, an overrider whose subject does not exist, and an entry for a node pool that its subject lacks.
    Workloads without errors are still printed.

    No workload is printed if a document cannot be read, because each one may depend on it.

    Exit codes: 0 success; 1 errors; 2 invalid arguments, unreadable input or nothing to render.
    """
    options = live.beside(files, filename, reading=reading)
    source = read_source(options, RESOURCES, partial=True)
    matrix = _build_matrix(source.documents, pool, subject)
    if source.errors:
        # The workloads could be wrong.
        print_lines(_check(matrix))
        fail_input(source.errors)
    if options.change:
        before = _build_matrix(source.before, pool, subject)
        rows = _print_changes(before, matrix, source.changed, output)
        size = len(before.cells.keys() | matrix.cells.keys())
    else:
        rendered = _render_all(matrix, _check(matrix))
        rows, size = rendered.rows, len(matrix.cells)
        _PRINTERS[output]([*rendered.previews.values()])
    if options.reads_cluster:
        rows += check_on_server(options, source.documents, matrix.store, rows, changed=source.changed or None)
    print_lines(rows)
    if has_failures(rows, strict=reading.strict):
        fail(count_levels(row.level for row in rows), code=CHECK_FAILED)
    if not size:
        where = "the cluster has" if options.reads_cluster else "the files have"
        fail(f"nothing to render: {where} no {_describe_missing(matrix.every, pool, subject)}")


def _describe_missing(every: Sequence[CellKey], pool: str | None, subject: str | None) -> str:
    """Return the workloads that a caller asked for and that do not exist, with the name that was probably meant."""
    description = f"{subject or 'YurtAppSet or YurtAppDaemon'} with {f'node pool {pool!r}' if pool else 'a node pool'}"
    name = None if subject is None else parse_subject(subject)
    pools = {key.pool for key in every if name is None or name.matches(key.subject)}
    if name is not None and not pools:
        kind, _, _ = name.text.partition("/")
        kinds = (key.subject for key in every if name.matches_kind(key.subject.group_kind))
        return description + suggestion(name.text, {f"{kind}/{key.name}" for key in kinds})
    return description + (suggestion(pool, pools, quote="'") if pool else "")


def _print_changes(before: _Matrix, after: _Matrix, changed: Collection[ObjectKey], output: Output) -> list[FindingRow]:
    """Print the workloads that differ, and their number; return the new findings."""
    same = find_unaffected(before.cells, after.cells, changed)
    rendered = _render_all(after, _check(after), skipped=same)
    # Findings before the change matter only if there are some after it, and finding them takes most of the time.
    former = _render_all(before, _check(before) if rendered.rows else [], skipped=same)
    changes = compare_previews(former.previews, rendered.previews, failed=rendered.failed)
    print_changes(changes, output)
    size = len(before.cells.keys() | after.cells.keys())
    failed = f", {len(rendered.failed)} cannot be rendered" if rendered.failed else ""
    write_error(f"{len(changes)} of {size} workloads differ{failed}")
    return select_new(rendered.rows, former.rows)


def _build_matrix(documents: Sequence[Document], pool: str | None, subject: str | None) -> _Matrix:
    """Return the workloads of one node pool and one subject, or of all if these are None."""
    store = fill_store(documents, [OVERRIDERS_BY_SUBJECT])
    workloads = cells(store, sorted({key_of(document.object).cluster for document in documents}))
    name = None if subject is None else parse_subject(subject)
    # Sorted by cluster, kind, namespace and name of their subject.
    every = dict(sorted(((cell_key(cell), cell) for cell in workloads), key=lambda one: one[0].subject))
    wanted = {
        key: cell
        for key, cell in every.items()
        if pool in (None, key.pool) and (name is None or name.matches(key.subject))
    }
    return _Matrix(documents, store, wanted, [*every])


def _check(matrix: _Matrix) -> list[FindingRow]:
    """Return the findings about all objects."""
    return [make_overrider_row(finding) for finding in check_documents(matrix.documents, matrix.store)]


def _render_all(matrix: _Matrix, rows: list[FindingRow], *, skipped: Collection[CellKey] = ()) -> _Rendered:
    """Render the workloads without the skipped ones; ``rows`` gets a row for each that cannot be rendered."""
    rendered = _Rendered({}, [], rows)
    plans = PlanCache()
    for key, cell in matrix.cells.items():
        if key in skipped:
            continue
        try:
            rendered.previews[key] = preview(cell, matrix.store, plans)
        except (SubjectError, RenderError) as error:
            rendered.failed.append(key)
            if (row := _report_failure(cell, error, matrix.documents, rendered.rows)) is not None:
                rendered.rows.append(row)
    return rendered


def _report_failure(
    cell: PoolWorkload, error: Exception, manifests: Sequence[Document], rows: Sequence[FindingRow]
) -> FindingRow | None:
    """Return the row of a workload that cannot be rendered, None if a finding already reports it."""
    key = key_of(cell.subject.document)
    if any(row.level == "error" and _is_cause(row, cell, error) for row in rows):
        return None
    places = (manifest.place for manifest in manifests if key_of(manifest.object) == key)
    return FindingRow(
        level="error",
        code="not-rendered",
        cluster=key.cluster,
        kind=key.group_kind.kind,
        namespace=key.namespace,
        name=key.name,
        webhook="",
        field="",
        text=f"node pool {cell.pool}, {cell.kind}: {error}",
        place=next(places, ""),
    )


def _is_cause(row: FindingRow, cell: PoolWorkload, error: Exception) -> bool:
    """Return whether a finding is about the manifest that causes an error."""
    manifest = cell.overrider if isinstance(error, RenderError) else cell.subject.document
    if manifest is None:
        return False
    key = key_of(manifest)
    return (row.cluster, row.kind, row.namespace, row.name) == (
        key.cluster,
        key.group_kind.kind,
        key.namespace,
        key.name,
    )
