"""Rows of a report and their summary, for `lint`, `render` and `convert`."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


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
