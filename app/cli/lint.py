"""``fleethook lint``: overriders, their subjects and webhook configurations that cannot do what they say."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli.exit_codes import CHECK_FAILED
from app.cli.explain_output import print_json
from app.cli.findings_output import fails, print_text, row_of_manifest, row_of_webhook
from app.cli.manifests import documents
from app.cli.options import StrictOption
from app.dispatch.assembly import INDEXES
from app.dispatch.lint.lint import lint as lint_webhooks
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.manifest_findings import check_documents
from app.store import Store, key_of


class Output(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def lint(
    manifests: Annotated[
        list[Path],
        typer.Option(help="Directory or file of manifests: overriders, subjects, webhooks; may be repeated."),
    ],
    strict: StrictOption = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TEXT,
) -> None:
    """Find overriders that are refused or do nothing, and webhooks that never fire or lock themselves out.

    YurtAppOverriders, YurtAppSets and YurtAppDaemons get the findings of admission, with file and line. An error is a
    finding that admission refuses. An overrider whose subject is not in the files (if they have any), and an entry for
    a node pool that its subject in the files lacks, are errors too: admission only warns, because the missing object
    may come later. Prints nothing if nothing is found; `--output json` prints a list. Exits 1 on errors.
    """
    found = documents(manifests)
    store = Store([OVERRIDERS_BY_SUBJECT, *INDEXES])
    places = {}
    for document in found:
        store.put(document.object)
        places[key_of(document.object)] = f"{document.source}:{document.line}"
    rows = [row_of_manifest(one) for one in check_documents(found, store)]
    rows += [row_of_webhook(one) for one in lint_webhooks(store, places=places)]
    if output is Output.JSON:
        print_json(rows)
    else:
        print_text(rows)
    if fails(rows, strict=strict):
        raise typer.Exit(CHECK_FAILED)
