"""The CustomResourceDefinitions of the store, by the kind that they define. Commands read it without a client."""

from typing import Final

from fleethook.cluster.store import Index, Stored
from fleethook.model.gvk import DEFINITION
from fleethook.model.json import as_object


def _list_definition_kinds(_cluster: str, definition: Stored) -> list[tuple[str, str]]:
    spec = as_object(definition.get("spec"))
    return [(str(spec.get("group") or ""), str(as_object(spec.get("names")).get("kind") or ""))]


DEFINITIONS_BY_KIND: Final = Index("definitions_by_kind", DEFINITION, _list_definition_kinds)
INDEXES: Final = (DEFINITIONS_BY_KIND,)
