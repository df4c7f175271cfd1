"""Select objects of a kind by field values, instead of listing all objects of a namespace."""

import re
from collections.abc import Hashable
from typing import Final, NamedTuple

from fleethook.cluster.store.store import Index

_SPECIAL: Final = re.compile(r"[\\\\,=]")


class FieldSelection(NamedTuple):
    """Objects of a namespace: kube-apiserver selects them by fields, the store by an index."""

    by: Index
    key: Hashable
    """The index key of the selected objects."""
    namespace: str
    fields: tuple[tuple[str, str], ...]
    """Field paths and their values."""

    @property
    def selector(self) -> str:
        """The field selector, escaped as in k8s.io/apimachinery/pkg/fields/selector.go (EscapeValue)."""
        escaped = ((path, _SPECIAL.sub(lambda found: f"\\{found[0]}", value)) for path, value in self.fields)
        return ",".join(f"{path}={value}" for path, value in escaped)
