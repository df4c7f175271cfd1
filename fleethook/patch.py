"""JSON Patch in two dialects, JSON merge patch, strategic merge patch, diff and JSON Pointer.

Every function is pure: it takes decoded JSON, returns a new document and changes no argument.
"""

from app.model.merge_keys import WORKLOAD, MergeSchema
from app.patch import (
    CompiledPatch,
    Dialect,
    PatchError,
    PatchLimits,
    StrategicMergeError,
    apply,
    compile_patch,
    diff,
    equal,
    format_pointer,
    identical,
    merge_patch,
    parse_pointer,
    resolve_pointer,
    strategic_merge,
)

__all__ = [
    "WORKLOAD",
    "CompiledPatch",
    "Dialect",
    "MergeSchema",
    "PatchError",
    "PatchLimits",
    "StrategicMergeError",
    "apply",
    "compile_patch",
    "diff",
    "equal",
    "format_pointer",
    "identical",
    "merge_patch",
    "parse_pointer",
    "resolve_pointer",
    "strategic_merge",
]
