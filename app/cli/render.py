"""``fleethook render``: the workload of every node pool, before anything is applied."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from app.cli.exit_codes import CHECK_FAILED, fail
from app.cli.findings_output import Row, has_failures, make_overrider_row, print_lines, select_new
from app.cli.options import (
    ChangeOption,
    ContextOption,
    InClusterOption,
    KcpOption,
    KubeconfigOption,
    OptionalFilesOption,
    StrictOption,
    WithoutOption,
)
from app.cli.render_output import Output, print_changes, print_previews
from app.cli.report import count_levels
from app.cli.sources import Source, SourceOptions, fill_store, read_source
from app.cli.terminal import write_error
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.manifest_findings import check_documents
from app.overrider.plan_cache import PlanCache
from app.overrider.pool_template import SubjectError
from app.overrider.preview import Cell, Preview, cells, preview
from app.overrider.preview_changes import PoolKey, compare_previews, pool_key
from app.overrider.steps import RenderError
from app.store.sources.kubernetes.resources import RESOURCES
from app.store.store import key_of
from app.store.yaml_reader import Document


class _Rendered(NamedTuple):
    """The workloads of all node pools.

    Attributes:
        previews: Workloads that can be rendered.
        failed: Workloads that cannot.
        rows: Findings, also about the latter.
    """

    previews: dict[PoolKey, Preview]
    failed: list[PoolKey]
    rows: list[Row]

    @property
    def size(self) -> int:
        """The number of workloads."""
        return len(self.previews) + len(self.failed)


def render(
    file: OptionalFilesOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    kcp: KcpOption = False,
    change: ChangeOption = None,
    without: WithoutOption = None,
    pool: Annotated[str | None, typer.Option(help="Render only this node pool.")] = None,
    strict: StrictOption = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.yaml,
) -> None:
    """Print the workload of every node pool, before you apply anything.

    YurtAppSets, YurtAppDaemons, NodePools and YurtAppOverriders are in FILEs or in a cluster. `--output diff` shows the
    changes that the overrider makes, and the entry that set each field.

    With --change or --without, only the workloads that the change affects are printed, and `--output diff` compares
    them with those before the change. Only findings that the change causes are reported.

    Findings go to standard error, with file and line, in the words of admission. These are errors: a finding that
    admission refuses, an overrider whose subject does not exist, and an entry for a node pool that its subject lacks.
    Workloads without errors are still printed.

    Exit codes: 0 success; 1 errors; 2 invalid arguments, unreadable input or nothing to render.
    """
    options = SourceOptions(
        file or (), kubeconfig, context, in_cluster, kcp, change or (), without or (), files_option="-f"
    )
    source = read_source(options, RESOURCES)
    rendered = _render_all(source.documents, pool)
    if options.changes:
        rows, size = _print_changes(source, rendered, pool, output)
    else:
        rows, size = rendered.rows, rendered.size
        print_previews([*rendered.previews.values()], output)
    print_lines(rows)
    if has_failures(rows, strict=strict):
        fail(count_levels(rows), code=CHECK_FAILED)
    if not size:
        wanted = f"node pool {pool!r}" if pool else "a node pool"
        where = "the cluster has" if options.reads_cluster else "the files have"
        fail(f"nothing to render: {where} no YurtAppSet or YurtAppDaemon with {wanted}")


def _print_changes(source: Source, rendered: _Rendered, pool: str | None, output: Output) -> tuple[list[Row], int]:
    """Print the workloads that differ; return the new findings, and the number of workloads before and after."""
    before = _render_all(source.before, pool)
    changes = compare_previews(before.previews, rendered.previews, failed=rendered.failed)
    print_changes(changes, output)
    size = len({*before.previews, *before.failed, *rendered.previews, *rendered.failed})
    write_error(f"{len(changes)} of {size} workloads differ")
    return select_new(rendered.rows, before.rows), size


def _render_all(documents: Sequence[Document], pool: str | None) -> _Rendered:
    """Render each workload of a node pool, or of all pools if it is None."""
    store = fill_store(documents, [OVERRIDERS_BY_SUBJECT])
    rendered = _Rendered({}, [], [make_overrider_row(one) for one in check_documents(documents, store)])
    plans = PlanCache()
    for cell in cells(store, sorted({key_of(one.object).cluster for one in documents})):
        if pool is not None and cell.pool != pool:
            continue
        key = pool_key(cell)
        try:
            rendered.previews[key] = preview(cell, store, plans)
        except (SubjectError, RenderError) as error:
            rendered.failed.append(key)
            if (row := _report_failure(cell, error, documents, rendered.rows)) is not None:
                rendered.rows.append(row)
    return rendered


def _report_failure(cell: Cell, error: Exception, manifests: Sequence[Document], rows: Sequence[Row]) -> Row | None:
    """Return the row of a workload that cannot be rendered, None if a finding already reports it."""
    key = key_of(cell.subject.document)
    if any(row.level == "error" and _is_cause(row, cell, error) for row in rows):
        return None
    places = (one.place for one in manifests if key_of(one.object) == key)
    return Row(
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


def _is_cause(row: Row, cell: Cell, error: Exception) -> bool:
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
