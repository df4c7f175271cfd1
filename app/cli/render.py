"""``fleethook render``: the pools x workload matrix, before anything is applied."""

import enum
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from app.cli.failures import CHECK_FAILED, fail
from app.cli.findings import Row, fails, print_lines, row_of_manifest
from app.cli.json_output import write_json
from app.cli.manifests import documents
from app.cli.options import FilesOption, StrictOption
from app.cli.report import count
from app.cli.styles import console, styled
from app.cli.terminal import write, write_document
from app.cli.yaml_output import yaml_text
from app.model.json import JSON
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.manifest_findings import check_documents
from app.overrider.plan_cache import PlanCache
from app.overrider.pool_template import SubjectError
from app.overrider.preview import Cell, Preview, cells, preview
from app.overrider.steps import RenderError
from app.store import Store
from app.store.store import key_of
from app.store.yaml_reader import Document


class Output(enum.StrEnum):
    """How the result is printed."""

    yaml = "yaml"
    json = "json"
    diff = "diff"


def render(
    file: FilesOption,
    pool: Annotated[str | None, typer.Option(help="Only this node pool.")] = None,
    strict: StrictOption = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.yaml,
) -> None:
    """Print what every node pool's workload will be, before anything is applied.

    FILEs hold YurtAppSets, YurtAppDaemons, NodePools and YurtAppOverriders. `--output diff` shows what the overrider
    changes, and which of its entries set each field. The findings of admission go to standard error, with file and
    line. Exits 1 on errors: a finding that admission refuses, an overrider whose subject is not in the FILEs, an entry
    for a node pool that its subject lacks. What can be rendered is still printed.
    """
    found = documents(file)
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in found:
        store.put(document.object)
    rows = [row_of_manifest(one) for one in check_documents(found, store)]
    clusters = sorted({key_of(document.object).cluster for document in found})
    matrix = [cell for cell in cells(store, clusters) if pool is None or cell.pool == pool]
    previews: list[Preview] = []
    plans = PlanCache()
    for cell in matrix:
        try:
            previews.append(preview(cell, store, plans))
        except (SubjectError, RenderError) as error:
            if (row := _failure(cell, error, found, rows)) is not None:
                rows.append(row)
    _PRINTERS[output](previews)
    print_lines(rows)
    if fails(rows, strict=strict):
        fail(count(rows), code=CHECK_FAILED)
    if not matrix:
        wanted = f"node pool {pool!r}" if pool else "a node pool"
        fail(f"nothing to render: no YurtAppSet or YurtAppDaemon with {wanted} in what -f gave")


def _failure(cell: Cell, error: Exception, found: Sequence[Document], rows: Sequence[Row]) -> Row | None:
    """Return the row of a workload that cannot be rendered, None if a finding about its manifests says so already."""
    key = key_of(cell.subject.document)
    if any(row.level == "error" and _is_about(row, cell, error) for row in rows):
        return None
    places = (f"{one.source}:{one.line}" for one in found if key_of(one.object) == key)
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


def _is_about(row: Row, cell: Cell, error: Exception) -> bool:
    """Return whether a finding is about the manifest that is to blame for an error."""
    blamed = cell.overrider if isinstance(error, RenderError) else cell.subject.document
    if blamed is None:
        return False
    key = key_of(blamed)
    return (row.cluster, row.kind, row.namespace, row.name) == (
        key.cluster,
        key.group_kind.kind,
        key.namespace,
        key.name,
    )


def _print_yaml(previews: list[Preview]) -> None:
    for item in previews:
        header = f"# {item.subject}, node pool {item.pool}" + (f", by {item.overrider}" if item.changes else "")
        write("---", header)
        write_document(yaml_text(item.workload))


def _print_json(previews: list[Preview]) -> None:
    rows: list[dict[str, Any]] = [
        {**item._asdict(), "changes": [change._asdict() for change in item.changes]} for item in previews
    ]
    write_json(rows)


def _print_diff(previews: list[Preview]) -> None:
    terminal = console()
    for item in previews:
        by = f" by {item.overrider}" if item.overrider else ""
        terminal.print(styled(f"{item.subject}, node pool {item.pool}, {item.kind}{by}", "bold"))
        if not item.changes:
            terminal.print(styled("  as the template", "dim"))
        for change in item.changes:
            terminal.print(styled(f"  {change.path}"), styled(f"  # {change.source}", "cyan"))
            for sign, style, value in (("-", "red", change.before), ("+", "green", change.after)):
                if value is not None:
                    terminal.print(styled(_block(sign, value), style, keep="\n"))


def _block(sign: str, value: JSON) -> str:
    text = yaml_text(value).removesuffix("...\n").rstrip("\n")
    return "\n".join(f"    {sign} {line}" for line in text.split("\n"))


_PRINTERS = {Output.yaml: _print_yaml, Output.json: _print_json, Output.diff: _print_diff}
