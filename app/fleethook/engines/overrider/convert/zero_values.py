"""Removes zero values: Go omits most of them when it encodes a workload, and decodes absent members as zero.

A patch cannot address an omitted member, so conversions use documents without zero values.
"""

from typing import Final

from fleethook.engines.overrider.schema.fields import Kind, load_structs, root_name
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import identical

ZEROS: Final[dict[str, JSON]] = {"string": "", "bool": False, "int32": 0, "int64": 0}
"""The zero values of scalar types."""


def without_zeros(workload: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload without empty structs, lists and maps, and without zero values of scalars.

    ``strategy: {}`` and each container's ``resources: {}`` have the same meaning as their absence. Pointers have no
    zero value: ``emptyDir: {}`` and ``replicas: 0`` are kept.

    Args:
        workload: A workload, or the template of one.
        kind: Its kind.
    """
    kept: JSONObject = _remove_zeros(workload, root_name(kind))
    return kept


def _remove_zeros(value: JSON, type_: str) -> JSON:
    type_ = type_.removeprefix("*")
    if type_.startswith("[]") and isinstance(value, list):
        return [_remove_zeros(element, type_[2:]) for element in value]
    struct = load_structs().get(type_)
    if struct is None or not isinstance(value, dict):
        return value
    types = {name: struct[name].type if name in struct else "" for name in value}
    made = {name: _remove_zeros(inner, types[name]) for name, inner in value.items()}
    return {name: inner for name, inner in made.items() if not _is_zero(inner, types[name])}


def _is_zero(value: JSON, type_: str) -> bool:
    if type_ in ZEROS:
        return bool(identical(value, ZEROS[type_]))
    if type_.startswith("[]"):
        return bool(value == [])
    return bool(value == {}) and (type_ in load_structs() or type_.startswith("map[") or type_ == "ResourceList")
