"""JSON Pointer, JSON Patch in two dialects, diff, JSON merge patch and strategic merge patch.

All functions are pure: they take documents and return documents.
"""

from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.patch.diff import diff, equal, identical
from fleethook.patch.json_patch_strict import CompiledPatch, Dialect, apply, compile_patch
from fleethook.patch.pointer_and_limits import PatchError, PatchLimits, StrategicMergeError
from fleethook.patch.pointer_and_limits import format_tokens as format_pointer
from fleethook.patch.pointer_and_limits import parse as parse_pointer
from fleethook.patch.pointer_and_limits import resolve as resolve_pointer
from fleethook.patch.strategic_merge_patch import merge_patch, strategic_merge

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
