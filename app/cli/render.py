"""``fleethook render``: the pools x workload matrix, before anything is applied."""

import enum
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import yaml
from rich.console import Console
from rich.text import Text

from app.cli.failures import CHECK_FAILED, fail
from app.cli.manifests import documents
from app.model.json import JSON
from app.model.openyurt import YURT_APP_OVERRIDER
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.plans import PlanCache
from app.overrider.preview import Preview, cells, preview
from app.overrider.rules import check_overrider
from app.overrider.steps import RenderError
from app.overrider.template import SubjectError
from app.store import Store
from app.store.store import key_of
from app.store.yaml_reader import Document


class Output(enum.StrEnum):
    """How the result is printed."""

    yaml = "yaml"
    json = "json"
    diff = "diff"


def render(
    file: Annotated[
        list[Path],
        typer.Option("--file", "-f", help="Manifest file or directory, '-' for standard input; may be repeated."),
    ],
    pool: Annotated[str | None, typer.Option(help="Only this node pool.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.yaml,
) -> None:
    """Print what every node pool's workload will be, before anything is applied.

    FILEs hold YurtAppSets, YurtAppDaemons, NodePools and YurtAppOverriders. `--output diff` shows what the overrider
    changes, and which of its entries set each field. Exits 1 if an overrider is invalid or does not fit.
    """
    found = documents(file)
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in found:
        store.put(document.object)
    problems = [problem for document in found for problem in _rule_problems(document)]
    clusters = sorted({key_of(document.object).cluster for document in found})
    previews: list[Preview] = []
    plans = PlanCache()
    matrix = [cell for cell in cells(store, clusters) if pool is None or cell.pool == pool]
    if not matrix:
        fail("no YurtAppSet or YurtAppDaemon" + (f" with node pool {pool!r}" if pool else "") + " in what -f gave")
    for cell in matrix:
        try:
            previews.append(preview(cell, store, plans))
        except (SubjectError, RenderError) as error:
            problems.append(f"{cell.title()}: {error}")
    _PRINTERS[output](previews)
    warnings = {f"{item.subject}: {text}" for item in previews for text in item.warnings}
    for warning in sorted(warnings):
        sys.stderr.write(f"warning: {warning}\n")
    if problems:
        fail("\n".join(["the overriders do not fit:", *(f"  {problem}" for problem in problems)]), code=CHECK_FAILED)


def _rule_problems(document: Document) -> list[str]:
    if key_of(document.object).group_kind != YURT_APP_OVERRIDER:
        return []
    place = f"{document.source}:{document.line}"
    return [f"{place}: {cause.field}: {cause.message}" for cause in check_overrider(document.object)]


def _print_yaml(previews: list[Preview]) -> None:
    for item in previews:
        header = f"# {item.subject}, node pool {item.pool}" + (f", by {item.overrider}" if item.changes else "")
        sys.stdout.write(f"---\n{header}\n{_dump(item.workload)}")


def _dump(value: JSON) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


def _print_json(previews: list[Preview]) -> None:
    rows: list[dict[str, Any]] = [
        {**item._asdict(), "changes": [change._asdict() for change in item.changes]} for item in previews
    ]
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")


def _print_diff(previews: list[Preview]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for item in previews:
        by = f" by {item.overrider}" if item.overrider else ""
        console.print(Text(f"{item.subject}, node pool {item.pool}, {item.kind}{by}", style="bold"))
        if not item.changes:
            console.print(Text("  as the template", style="dim"))
        for change in item.changes:
            console.print(Text(f"  {change.path}"), Text(f"  # {change.source}", style="cyan"))
            for sign, style, value in (("-", "red", change.before), ("+", "green", change.after)):
                if value is not None:
                    console.print(Text(_block(sign, value), style=style))


def _block(sign: str, value: JSON) -> str:
    text = _dump(value).removesuffix("...\n").rstrip("\n")
    return "\n".join(f"    {sign} {line}" for line in text.split("\n"))


_PRINTERS = {Output.yaml: _print_yaml, Output.json: _print_json, Output.diff: _print_diff}
