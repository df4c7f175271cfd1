"""JSON Merge Patch (RFC 7386)."""

from fleethook.model.json import JSON


def merge_patch(target: JSON, patch: JSON) -> JSON:
    """Return ``target`` merged with ``patch``; null removes a member. Both arguments stay unchanged."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
