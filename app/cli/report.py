"""The parts that the reports of `lint`, `render` and `convert` share."""

from collections.abc import Sequence

import msgspec


class ObjectRow(msgspec.Struct, frozen=True):
    """The first members of a row of a report: the level, the code and the object."""

    level: str
    """``error``, ``warning`` or ``note``."""
    code: str
    cluster: str
    kind: str
    namespace: str
    name: str


def describe_object(row: ObjectRow) -> str:
    """Return kind, namespace and name of a row's object, and its logical cluster if it has one."""
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    inside = f" of {row.cluster}" if row.cluster else ""
    return f"{row.kind} {name}{inside}"


def count(rows: Sequence[ObjectRow]) -> str:
    """Return the number of errors and of warnings in words: ``1 error, 2 warnings``."""
    numbers = {level: sum(row.level == level for row in rows) for level in ("error", "warning")}
    return ", ".join(f"{number} {level}{'' if number == 1 else 's'}" for level, number in numbers.items())
