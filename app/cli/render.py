"""``fleethook render``: the workload of every node pool, before anything is applied."""

from collections.abc import Sequence
from typing import Annotated

import typer

from app.cli.exit_codes import CHECK_FAILED, fail
from app.cli.findings_output import Row, has_failures, make_overrider_row, print_lines
from app.cli.manifests import read_objects
from app.cli.options import FilesOption, StrictOption
from app.cli.render_output import Output, print_previews
from app.cli.report import count_levels
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.manifest_findings import check_documents
from app.overrider.plan_cache import PlanCache
from app.overrider.pool_template import SubjectError
from app.overrider.preview import Cell, Preview, cells, preview
from app.overrider.steps import RenderError
from app.store import Store
from app.store.store import key_of
from app.store.yaml_reader import Document


def render(
    file: FilesOption,
    pool: Annotated[str | None, typer.Option(help="Render only this node pool.")] = None,
    strict: StrictOption = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.yaml,
) -> None:
    """Print the workload of every node pool, before you apply anything.

    FILEs hold YurtAppSets, YurtAppDaemons, NodePools and YurtAppOverriders. `--output diff` shows the changes that the
    overrider makes, and the entry that set each field.

    Findings go to standard error, with file and line, in the words of admission. These are errors: a finding that
    admission refuses, an overrider whose subject is not in the FILEs, and an entry for a node pool that its subject
    lacks. Workloads without errors are still printed.

    Exit codes: 0 success; 1 errors; 2 invalid arguments, unreadable input or nothing to render.
    """
    manifests = read_objects(file)
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in manifests:
        store.put(document.object)
    rows = [make_overrider_row(one) for one in check_documents(manifests, store)]
    clusters = sorted({key_of(document.object).cluster for document in manifests})
    matrix = [cell for cell in cells(store, clusters) if pool is None or cell.pool == pool]
    previews: list[Preview] = []
    plans = PlanCache()
    for cell in matrix:
        try:
            previews.append(preview(cell, store, plans))
        except (SubjectError, RenderError) as error:
            if (row := _report_failure(cell, error, manifests, rows)) is not None:
                rows.append(row)
    print_previews(previews, output)
    print_lines(rows)
    if has_failures(rows, strict=strict):
        fail(count_levels(rows), code=CHECK_FAILED)
    if not matrix:
        wanted = f"node pool {pool!r}" if pool else "a node pool"
        fail(f"nothing to render: the files have no YurtAppSet or YurtAppDaemon with {wanted}")


def _report_failure(cell: Cell, error: Exception, manifests: Sequence[Document], rows: Sequence[Row]) -> Row | None:
    """Return the row of a workload that cannot be rendered, None if a finding already reports it."""
    key = key_of(cell.subject.document)
    if any(row.level == "error" and _is_cause(row, cell, error) for row in rows):
        return None
    places = (f"{one.source}:{one.line}" for one in manifests if key_of(one.object) == key)
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
