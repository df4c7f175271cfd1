"""The findings of `lint` and `render` as rows and text, with the numbers of errors and warnings."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import structs

from fleethook.cli.output.text_output import styled, write, write_error, write_styled
from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError


def count_levels(levels: Iterable[str]) -> str:
    """Return the numbers of errors and warnings as text: ``1 error, 2 warnings``."""
    counts = Counter(levels)
    return ", ".join(f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in ("error", "warning"))


UNREADABLE_INPUT: Final = "unreadable-input"
"""Code of documents that cannot be read."""
_STYLES: Final = {"error": "bold red", "warning": "yellow"}


class FindingRow(msgspec.Struct, frozen=True):
    """One finding, as ``--output json`` prints it.

    Attributes:
        level: ``error``, ``warning`` or ``note``.
        code: Stable name of the finding, such as ``unknown-pool``.
        cluster: Logical cluster of the object, ``""`` for a plain cluster.
        kind: Kind of the object.
        namespace: Namespace of the object, ``""`` without one.
        name: Name of the object.
        webhook: Name of the webhook in a webhook configuration, ``""`` for the object itself and for other kinds.
        field: Path of the field in the object, ``""`` for the object itself or if the text names it.
        text: The message.
        place: ``FILE:LINE``, ``cluster`` for an object of a cluster.
    """

    level: str
    code: str
    cluster: str
    kind: str
    namespace: str
    name: str
    webhook: str
    field: str
    text: str
    place: str


def make_input_row(error: ManifestError) -> FindingRow:
    """Return the row of unreadable input."""
    return FindingRow(
        "error", UNREADABLE_INPUT, "", "", "", "", webhook="", field="", text=error.reason, place=error.place
    )


def _describe(row: FindingRow) -> str:
    """Return the object, the webhook or field, and the message on one line."""
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    inside = f" of {row.cluster}" if row.cluster else ""
    webhook = f", {row.webhook}" if row.webhook else ""
    field = f"{row.field}: " if row.field else ""
    return f"{row.kind} {name}{inside}{webhook}: {field}{row.text}"


def print_text(rows: Sequence[FindingRow]) -> None:
    """Write findings with their codes to standard output, two lines each, then the numbers of errors and warnings."""
    for row in rows:
        write_styled(styled(f"{row.place}:"), styled(row.level, _STYLES[row.level]), styled(f"[{row.code}]"))
        write_styled(styled(f"  {_describe(row)}"))
    if rows:
        write_styled(styled(count_levels(row.level for row in rows)))


def print_lines(rows: Sequence[FindingRow]) -> None:
    """Write findings to standard error, one line each: ``FILE:LINE: error: …``, as compilers do."""
    for row in rows:
        write_error(f"{row.place}: {row.level}: {_describe(row)}")


def select_new(rows: Sequence[FindingRow], before: Sequence[FindingRow]) -> list[FindingRow]:
    """Return the findings that a change causes: those that were not there before, wherever their lines are."""
    known = Counter(structs.replace(finding_row, place="") for finding_row in before)
    finding_rows = []
    for row in rows:
        same = structs.replace(row, place="")
        if known[same]:
            known[same] -= 1
        else:
            finding_rows.append(row)
    return finding_rows


def has_failures(rows: Sequence[FindingRow], *, strict: bool) -> bool:
    """Return whether a command with these findings exits with 1: on errors, and with ``strict`` on any finding."""
    return any(strict or row.level == "error" for row in rows)


# https://docs.github.com/actions: "Workflow commands". GitHub's toolkit escapes the same characters.
_ESCAPED: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPED_IN_PROPERTIES: Final = {**_ESCAPED, ":": "%3A", ",": "%2C"}


def write_annotations(rows: Sequence[FindingRow], errors: Sequence[ManifestError] = ()) -> None:
    """Write findings and unreadable input to standard output, so that GitHub shows them beside the lines of files."""
    for error in errors:
        # An error about a whole file is in its first line.
        place = f"{error.source}:{max(error.line, 1)}"
        write(format_annotation("error", UNREADABLE_INPUT, f"{error.source}: {error.reason}", place))
    write(*(format_annotation(row.level, row.code, _describe(row), row.place) for row in rows))


def format_annotation(level: str, code: str, text: str, place: str) -> str:
    """Return the workflow command that makes GitHub show a finding."""
    properties = {"title": code}
    file, _, line = place.rpartition(":")
    if line.isdecimal() and file != "<stdin>":
        properties = {"file": file, "line": line, **properties}
    shown = ",".join(f"{name}={_escape(value, _ESCAPED_IN_PROPERTIES)}" for name, value in properties.items())
    return f"::{level} {shown}::{_escape(text, _ESCAPED)}"


def _escape(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
