"""The kinds of Crossplane that its users define: managed resources, composite resources and claims.

Crossplane and its providers write the sort of a kind to the categories of its CustomResourceDefinition (crossplane v2
internal/xcrd). Without a definition, the API group of a provider says that a kind is a managed resource.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from app.interpret.webhook_layer import DEFINITIONS_BY_KIND
from app.model.gvk import GroupVersionKind
from app.model.json import JSON, as_object, enumerate_objects
from app.store import StoreView

STAND_IN: Final = GroupVersionKind("crossplane.io", "v1", "Managed")
"""The kind in the bundle that has the rules for all of them."""
_CATEGORIES: Final = frozenset({"managed", "composite", "claim"})
_PROVIDERS: Final = (".crossplane.io", ".upbound.io")
_CORE: Final = ("apiextensions", "meta.pkg", "ops", "pkg", "protection", "secrets")


def is_defined_by_users(kind: GroupVersionKind, definitions: StoreView | None) -> bool:
    """Return whether a kind is a managed resource, a composite resource or a claim.

    Args:
        kind: The kind.
        definitions: CustomResourceDefinitions, indexed by `DEFINITIONS_BY_KIND`; None if there are none.
    """
    found = () if definitions is None else definitions.find(DEFINITIONS_BY_KIND, "", tuple(kind.group_kind))
    if found:
        return _has_category(as_object(found[0].get("spec")))
    group = next((kind.group.removesuffix(one) for one in _PROVIDERS if kind.group.endswith(one)), "")
    # ProviderConfigs and their usages configure providers.
    return group not in ("", *_CORE) and not kind.kind.endswith(("Config", "ConfigUsage"))


def list_defined_by_users(definitions: StoreView | None) -> Iterator[GroupVersionKind]:
    """Yield the served versions of all kinds in the definitions for which `is_defined_by_users` is true."""
    for definition in () if definitions is None else definitions.each("", DEFINITIONS_BY_KIND.group_kind):
        spec = as_object(definition.get("spec"))
        if not _has_category(spec):
            continue
        group, name = str(spec.get("group") or ""), str(as_object(spec.get("names")).get("kind") or "")
        for _, version in enumerate_objects(spec.get("versions")):
            if version.get("served") is True:
                yield GroupVersionKind(group, str(version.get("name") or ""), name)


def _has_category(spec: Mapping[str, JSON]) -> bool:
    categories = as_object(spec.get("names")).get("categories")
    return isinstance(categories, list) and not _CATEGORIES.isdisjoint(
        one for one in categories if isinstance(one, str)
    )
