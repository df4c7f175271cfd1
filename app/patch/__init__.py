"""JSON Pointer, JSON Patch in two dialects, diff, JSON merge patch and strategic merge patch.

All functions are pure: they take documents and return documents.
"""

from app.patch.diff import diff
from app.patch.equality import equal, identical
from app.patch.errors import PatchError, StrategicMergeError
from app.patch.json_merge_patch import merge_patch
from app.patch.json_patch import CompiledPatch, Dialect, apply, compile_patch
from app.patch.limits import LIMITS, PatchLimits
from app.patch.pointer import format_tokens as format_pointer
from app.patch.pointer import parse as parse_pointer
from app.patch.pointer import resolve as resolve_pointer
from app.patch.strategic_merge_patch import strategic_merge

__all__ = [
    "LIMITS",
    "CompiledPatch",
    "Dialect",
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
