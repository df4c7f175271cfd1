"""``fleethook lint``: find mistakes in overriders, their subjects and webhook configurations."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli.exit_codes import CHECK_FAILED
from app.cli.findings_output import has_failures, make_overrider_row, make_webhook_row, print_text
from app.cli.json_output import write_json
from app.cli.manifests import read_objects
from app.cli.options import StrictOption
from app.dispatch.factory import INDEXES
from app.dispatch.lint.lint import lint as lint_webhooks
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.manifest_findings import check_documents
from app.store import Store, key_of


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    JSON = "json"


def lint(
    manifests: Annotated[
        list[Path],
        typer.Option(help="Directory or file of overriders, subjects and webhook configurations; may be repeated."),
    ],
    strict: StrictOption = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """Find overriders that are refused or have no effect, and webhooks that never fire or block themselves.

    YurtAppOverriders, YurtAppSets and YurtAppDaemons get the findings of admission, with file and line. These are
    errors: a finding that admission refuses, an overrider whose subject is not in the files, and an entry for a node
    pool that its subject lacks. Admission only warns about a missing object, because it may be created later. Without
    any subject in the files, missing subjects are warnings here, too.

    Prints nothing if there are no findings; `--output json` prints an empty list.

    Exit codes: 0 success; 1 errors; 2 invalid arguments or unreadable input.
    """
    objects = read_objects(manifests)
    store = Store([OVERRIDERS_BY_SUBJECT, *INDEXES])
    places = {}
    for document in objects:
        store.put(document.object)
        places[key_of(document.object)] = f"{document.source}:{document.line}"
    rows = [make_overrider_row(one) for one in check_documents(objects, store)]
    rows += [make_webhook_row(one) for one in lint_webhooks(store, places=places)]
    if output is Output.JSON:
        write_json(rows)
    else:
        print_text(rows)
    if has_failures(rows, strict=strict):
        raise typer.Exit(CHECK_FAILED)
