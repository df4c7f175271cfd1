"""The objects of a kind that have some values in common, so that nobody has to read a whole namespace for them."""

import re
from collections.abc import Hashable
from typing import Final, NamedTuple

from app.store.store import Index

_SPECIAL: Final = re.compile(r"[\\\\,=]")


class FieldSelection(NamedTuple):
    """Objects of a namespace that an apiserver selects by fields, and the store by an index."""

    by: Index
    key: Hashable
    """Of that index: the objects under it are the selected ones."""
    namespace: str
    fields: tuple[tuple[str, str], ...]
    """Paths of fields, with their values."""

    @property
    def selector(self) -> str:
        """The field selector (apimachinery, fields/selector.go: EscapeValue)."""
        escaped = ((path, _SPECIAL.sub(lambda found: f"\\{found[0]}", value)) for path, value in self.fields)
        return ",".join(f"{path}={value}" for path, value in escaped)
