"""API types and rules of the Kubernetes API that engines share. Pure: no I/O, no clock, no settings.

The supported types are `msgspec` structs that decode and encode the JSON of each API group. The modules are
`admission`, `karmada` (interpreter reviews) and `operator` (instances of Karmada). This package itself has the names
that all of them use.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fleethook.model import admission, crd_tarball, karmada
    from fleethook.model.formats.quantity import Quantity
    from fleethook.model.gvk import GroupKind, GroupVersionKind, GroupVersionResource, gvk_of, parse_api_version
    from fleethook.model.json import JSON, JSONObject

__all__ = [
    "JSON",
    "GroupKind",
    "GroupVersionKind",
    "GroupVersionResource",
    "JSONObject",
    "Quantity",
    "admission",
    "crd_tarball",
    "gvk_of",
    "karmada",
    "parse_api_version",
]

_NAMES: Final = {
    "fleethook.model.json": ("JSON", "JSONObject"),
    "fleethook.model.formats.quantity": ("Quantity",),
    "fleethook.model.gvk": ("GroupKind", "GroupVersionKind", "GroupVersionResource", "gvk_of", "parse_api_version"),
}

if not TYPE_CHECKING:
    # Each module of fleethook imports this package, and most need few of these modules.
    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers see the imports above
        for module, names in _NAMES.items():
            if name in names:
                return getattr(importlib.import_module(module), name)
        if name in __all__:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
