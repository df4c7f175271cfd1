"""Printing what is found in manifests: overriders, their subjects, webhook configurations."""

from collections.abc import Sequence
from typing import Final

from app.cli.report import ObjectRow, count, describe_object
from app.cli.styles import console, styled
from app.cli.terminal import write_error
from app.dispatch.lint.codes import Finding as WebhookFinding
from app.overrider.manifest_findings import ManifestFinding

_STYLES: Final = {"error": "bold red", "warning": "yellow"}


class Row(ObjectRow, frozen=True):
    """One finding, as ``--output json`` prints it."""

    webhook: str
    """Name of the webhook in a webhook configuration, ``""`` for the whole object and for other kinds."""
    field: str
    """Path of the member in the object, ``""`` for the object itself or if the text says it."""
    text: str
    place: str
    """``FILE:LINE``."""


def row_of_manifest(one: ManifestFinding) -> Row:
    """Return the row of a finding about an overrider or its subject."""
    key, finding = one.key, one.finding
    return Row(
        level=one.level,
        code=finding.code,
        cluster=key.cluster,
        kind=key.group_kind.kind,
        namespace=key.namespace,
        name=key.name,
        webhook="",
        field=finding.field,
        text=finding.message,
        place=one.place,
    )


def row_of_webhook(one: WebhookFinding) -> Row:
    """Return the row of a finding about a webhook configuration or an APIBinding."""
    return Row(
        level=one.level,
        code=one.code,
        cluster=one.cluster,
        kind=one.kind,
        namespace="",
        name=one.configuration,
        webhook=one.webhook,
        field="",
        text=one.text,
        place=one.place,
    )


def describe(row: Row) -> str:
    """Return object, webhook or field, and message on one line."""
    webhook = f", {row.webhook}" if row.webhook else ""
    field = f"{row.field}: " if row.field else ""
    return f"{describe_object(row)}{webhook}: {field}{row.text}"


def print_text(rows: Sequence[Row]) -> None:
    """Write findings to standard output with their codes, two lines each, and their number."""
    terminal = console()
    for row in rows:
        terminal.print(styled(f"{row.place}:"), styled(row.level, _STYLES[row.level]), styled(f"[{row.code}]"))
        terminal.print(styled(f"  {describe(row)}"))
    if rows:
        terminal.print(styled(count(rows)))


def print_lines(rows: Sequence[Row]) -> None:
    """Write findings to standard error, one line each: ``FILE:LINE: error: …``, as compilers do."""
    for row in rows:
        write_error(f"{row.place}: {row.level}: {describe(row)}")


def fails(rows: Sequence[Row], *, strict: bool) -> bool:
    """Return whether a command with these findings exits with 1: on errors, with ``strict`` on warnings, too."""
    return any(strict or row.level == "error" for row in rows)
