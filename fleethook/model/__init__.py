"""API types: `msgspec` structs that decode and encode the JSON of each API group.

The modules are `admission`, `openyurt`, `karmada` (interpreter reviews and configurations) and `operator` (instances of
Karmada). This package itself has the names that all of them use.
"""

from app.model.gvk import GroupKind, GroupVersionKind, GroupVersionResource, gvk_of, parse_api_version
from app.model.json import JSON, JSONObject
from app.model.quantity import Quantity
from fleethook.model import admission, karmada, openyurt, operator

__all__ = [
    "JSON",
    "GroupKind",
    "GroupVersionKind",
    "GroupVersionResource",
    "JSONObject",
    "Quantity",
    "admission",
    "gvk_of",
    "karmada",
    "openyurt",
    "operator",
    "parse_api_version",
]
