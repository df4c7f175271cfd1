"""The resources of a cluster that replayed reviews may depend on."""

from collections.abc import Collection
from typing import Final

from app.cli.sources import select_dispatching
from app.records.changes import DISPATCHING as DISPATCHED
from app.registration.paths import (
    EXPLORE,
    INTERPRET,
    MUTATE_KARMADA,
    OBSERVE,
    VALIDATE_CONFIG_MAP,
    VALIDATE_CUSTOMIZATION,
    VALIDATE_HOOKS,
    VALIDATE_KARMADA,
    VALIDATE_MUTATING,
    VALIDATE_VALIDATING,
)
from app.settings import Settings
from app.store.sources.kubernetes.resources import INTERPRETING, RESOURCES, WatchedResource, karmada_config

_INTERPRETED: Final = (EXPLORE, INTERPRET, VALIDATE_CONFIG_MAP, VALIDATE_CUSTOMIZATION, VALIDATE_HOOKS)
_DECIDED_ALONE: Final = (MUTATE_KARMADA, OBSERVE, VALIDATE_KARMADA, VALIDATE_MUTATING, VALIDATE_VALIDATING)


def list_resources(settings: Settings, routes: Collection[str], *, kcp: bool) -> list[WatchedResource]:
    """Return the resources that the engines of routes decide with, each once.

    Args:
        settings: The settings of the server.
        routes: Templates of the routes; all routes if it is empty.
        kcp: Whether the cluster is a kcp.
    """
    engines = {_find_engine(route) for route in routes} if routes else settings.engines
    found: dict[str, WatchedResource] = {}
    if "overrider" in engines:
        found |= {one.name: one for one in RESOURCES}
    if "interpret" in engines:
        found |= {one.name: one for one in (*INTERPRETING, karmada_config(settings.karmada_namespace))}
    if "dispatch" in engines:
        found |= {one.name: one for one in select_dispatching(kcp=kcp)}
    return list(found.values())


def _find_engine(route: str) -> str:
    if route in _DECIDED_ALONE:
        return ""
    if route.startswith(DISPATCHED):
        return "dispatch"
    return "interpret" if route.startswith(_INTERPRETED) else "overrider"
