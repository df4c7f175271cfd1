"""JSON Merge Patch (RFC 7386)."""

from app.model.json import JSON


def merge_patch(target: JSON, patch: JSON) -> JSON:
    """Return ``target`` with the members of ``patch``, recursively; null takes a member away. Neither is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
