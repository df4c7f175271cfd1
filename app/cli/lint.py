"""``fleethook lint``: webhook configurations that cannot do what they say."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from app.cli.explained import print_json
from app.cli.failures import CHECK_FAILED
from app.cli.manifests import documents
from app.dispatch.assembly import INDEXES
from app.dispatch.lint.codes import Finding
from app.dispatch.lint.lint import lint as lint_store
from app.store import Store, key_of

_STYLES: Final = {"error": "bold red", "warning": "yellow"}


class Output(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def lint(
    manifests: Annotated[
        Path, typer.Option(help="Directory of manifests: webhooks, and all that says what their clusters serve.")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings, too.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TEXT,
) -> None:
    """Find webhooks that never fire, are refused, cost too much time, or lock themselves out.

    Nothing is printed where nothing is found, but for `--output json`, which prints a list. Exits 1 on any error.
    """
    store = Store(INDEXES)
    places = {}
    for document in documents([manifests]):
        store.put(document.object)
        places[key_of(document.object)] = f"{document.source}:{document.line}"
    findings = lint_store(store, places=places)
    if output is Output.JSON:
        print_json(findings)
    else:
        _print_text(findings)
    if any(strict or one.level == "error" for one in findings):
        raise typer.Exit(CHECK_FAILED)


def _print_text(findings: Sequence[Finding]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for one in findings:
        inside = f" of {one.cluster}" if one.cluster else ""
        webhook = f", {one.webhook}" if one.webhook else ""
        console.print(Text(f"{one.place}:"), Text(one.level, style=_STYLES[one.level]), Text(f"[{one.code}]"))
        console.print(Text(f"  {one.kind} {one.configuration}{inside}{webhook}: {one.text}"))
    errors = sum(one.level == "error" for one in findings)
    if findings:
        console.print(Text(f"{_counted(errors, 'error')}, {_counted(len(findings) - errors, 'warning')}"))


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
