"""The remarks that a conversion reports."""

from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.model.json import JSON

Level = Literal["error", "warning", "note"]


CODES: Final[dict[str, tuple[Level, ...]]] = {
    "lost": ("error",),
    "refused": ("error",),
    "elsewhere": ("error",),
    "no-node-pool": ("error",),
    "no-node-pools": ("error", "warning"),
    "not-rendered": ("error",),
    "not-converted": ("error",),
    "name-taken": ("error",),
    "listed-pools": ("warning", "note"),
    "confined": ("warning",),
    "taints": ("warning",),
    "label-added": ("warning",),
    "selector": ("warning",),
    "not-in-effect": ("warning",),
    "orphan": ("warning",),
    "patch": ("note",),
    "index": ("note",),
    "unset": ("note",),
    "moved": ("note",),
    "unused": ("note",),
    "kept": ("note",),
}
"""The codes of remarks with their levels; their meanings are in docs/convert.md."""


class Remark(NamedTuple):
    """One remark about an object of the input."""

    level: Level
    """An error is a loss. A warning is about later changes, such as a new node pool. A note explains the new form."""
    code: str
    key: ObjectKey
    """The overrider or the subject."""
    field: str
    """Path of the member in that object, ``""`` for the object itself."""
    text: str
    pools: tuple[str, ...] = ()
    """The node pools of the remark; empty for all pools."""
    path: str = ""
    """JSON pointer of the difference in the workloads, ``""`` if there is none."""
    before: JSON = None
    """The value at that path before the conversion, None if there was none."""
    after: JSON = None
    """The value after it, None if there is none."""
