"""The findings of `lint`, `render` and `convert` as rows and text, with the numbers of errors and warnings."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from msgspec import structs

from fleethook.cli.output.terminal import styled, write_error, write_styled
from fleethook.cluster.manifests.yaml_reader import ManifestError


class ObjectRow(msgspec.Struct, frozen=True):
    """The first fields of each row: the level, the code and the object.

    Attributes:
        level: ``error``, ``warning`` or ``note``.
        code: Stable name of the finding, such as ``unknown-pool``.
        cluster: Logical cluster of the object, ``""`` for a plain cluster.
        kind: Kind of the object.
        namespace: Namespace of the object, ``""`` without one.
        name: Name of the object.
    """

    level: str
    code: str
    cluster: str
    kind: str
    namespace: str
    name: str


def describe_object(row: ObjectRow) -> str:
    """Return the kind, namespace, name and logical cluster of the object of a row."""
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    inside = f" of {row.cluster}" if row.cluster else ""
    return f"{row.kind} {name}{inside}"


class Leveled(Protocol):
    """A row with a level."""

    @property
    def level(self) -> str:
        """``error``, ``warning`` or ``note``."""


def count_levels(rows: Sequence[Leveled]) -> str:
    """Return the numbers of errors and warnings as text: ``1 error, 2 warnings``."""
    numbers = {level: sum(row.level == level for row in rows) for level in ("error", "warning")}
    return ", ".join(f"{number} {level}{'' if number == 1 else 's'}" for level, number in numbers.items())


UNREADABLE_INPUT: Final = "unreadable-input"
"""Code of documents that cannot be read."""
_STYLES: Final = {"error": "bold red", "warning": "yellow"}


class Row(ObjectRow, frozen=True):
    """One finding, as ``--output json`` prints it.

    Attributes:
        webhook: Name of the webhook in a webhook configuration, ``""`` for the object itself and for other kinds.
        field: Path of the field in the object, ``""`` for the object itself or if the text names it.
        text: The message.
        place: ``FILE:LINE``, ``cluster`` for an object of a cluster.
    """

    webhook: str
    field: str
    text: str
    place: str


def make_input_row(error: ManifestError) -> Row:
    """Return the row of unreadable input."""
    return Row("error", UNREADABLE_INPUT, "", "", "", "", webhook="", field="", text=error.reason, place=error.place)


def _describe(row: Row) -> str:
    """Return the object, the webhook or field, and the message on one line."""
    webhook = f", {row.webhook}" if row.webhook else ""
    field = f"{row.field}: " if row.field else ""
    return f"{describe_object(row)}{webhook}: {field}{row.text}"


def print_text(rows: Sequence[Row]) -> None:
    """Write findings with their codes to standard output, two lines each, then the numbers of errors and warnings."""
    for row in rows:
        write_styled(styled(f"{row.place}:"), styled(row.level, _STYLES[row.level]), styled(f"[{row.code}]"))
        write_styled(styled(f"  {_describe(row)}"))
    if rows:
        write_styled(styled(count_levels(rows)))


def print_lines(rows: Sequence[Row]) -> None:
    """Write findings to standard error, one line each: ``FILE:LINE: error: …``, as compilers do."""
    for row in rows:
        write_error(f"{row.place}: {row.level}: {_describe(row)}")


def select_new(rows: Sequence[Row], before: Sequence[Row]) -> list[Row]:
    """Return the findings that a change causes: those that were not there before, wherever their lines are."""
    known = Counter(structs.replace(one, place="") for one in before)
    found = []
    for row in rows:
        same = structs.replace(row, place="")
        if known[same]:
            known[same] -= 1
        else:
            found.append(row)
    return found


def has_failures(rows: Sequence[Row], *, strict: bool) -> bool:
    """Return whether a command with these findings exits with 1: on errors, and with ``strict`` on warnings."""
    return any(strict or row.level == "error" for row in rows)
