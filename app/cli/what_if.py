"""The changes of ``--change`` and ``--without``: objects as they are after ``kubectl apply`` and ``kubectl delete``."""

from collections.abc import Sequence
from typing import NamedTuple

from app.store import ObjectKey
from app.store.yaml_reader import Document


class Overlay(NamedTuple):
    """Changes to objects.

    Attributes:
        manifests: Objects to apply.
        without: Objects to remove, each as ``KIND[.GROUP]/[NAMESPACE/]NAME[@CLUSTER]``.
        namespace: Namespace of manifests that name none, None to leave them without.
        kcp: Whether each object needs a logical cluster.
    """

    manifests: Sequence[Document]
    without: Sequence[str]
    namespace: str | None = None
    kcp: bool = False


class Changed(NamedTuple):
    """Changed objects, and the keys of those that were added, changed or removed."""

    documents: list[Document]
    keys: frozenset[ObjectKey]


def overlay(documents: Sequence[Document], changes: Overlay) -> Changed:
    """Return the objects with the changes. Exits with a message if a change does not fit."""
    raise NotImplementedError
