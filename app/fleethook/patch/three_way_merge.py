"""The three-way merge of ``kubectl apply``: the last applied manifest, the new manifest and the live object.

Fields of the last manifest that the new one lacks are removed, fields of the new manifest are set, and all other fields
of the live object stay. Sources: k8s.io/apimachinery, util/strategicpatch (CreateThreeWayMergePatch) for kinds with
merge keys, util/jsonmergepatch (CreateThreeWayJSONMergePatch) for all other kinds, such as custom resources.
"""

from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.pointer import escape
from fleethook.patch.strategic_merge_patch import identify_element, strategic_merge


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


def merge_three_way(
    last: JSONObject, manifest: JSONObject, live: JSONObject, *, schema: MergeSchema | None
) -> JSONObject:
    """Return the live object after ``kubectl apply`` of a manifest. The arguments stay unchanged.

    Args:
        last: The manifest that was applied before.
        manifest: The manifest to apply.
        live: The object.
        schema: The merge keys of the kind, None for a custom resource.

    Raises:
        StrategicMergeError: The merge is impossible, for example because an element has no merge key.
    """
    if schema is None:
        merged: JSONObject = merge_patch(live, _build_json_patch(last, manifest))
    else:
        merged = strategic_merge(live, _build_strategic_patch(last, manifest, schema), schema)
    return merged


def _build_json_patch(last: JSONObject, manifest: JSONObject) -> JSONObject:
    patch: JSONObject = {name: None for name in last if manifest.get(name) is None}
    for name, value in manifest.items():
        former = last.get(name)
        if isinstance(value, dict):
            patch[name] = _build_json_patch(former if isinstance(former, dict) else {}, value)
        else:
            patch[name] = value
    return patch


def _build_strategic_patch(
    last: JSONObject, manifest: JSONObject, schema: MergeSchema, *, path: str = ""
) -> JSONObject:
    patch: JSONObject = {name: None for name in last if manifest.get(name) is None}
    for name, value in manifest.items():
        former, child, inner = last.get(name), schema.fields.get(name, MergeSchema()), f"{path}/{escape(name)}"
        if isinstance(value, dict):
            patch[name] = _build_strategic_patch(former if isinstance(former, dict) else {}, value, child, path=inner)
            if child.retain_keys:
                patch[name]["$retainKeys"] = list(value)
        elif isinstance(value, list) and (child.merge_key or child.primitive):
            elements = former if isinstance(former, list) else []
            patch.update(_build_list_patch(name, elements, value, schema=child, path=inner))
        else:
            patch[name] = value
    return patch


def _build_list_patch(
    name: str, last: list[JSON], manifest: list[JSON], *, schema: MergeSchema, path: str
) -> JSONObject:
    """Return the members of a patch that make a merged list contain the elements of a manifest."""
    key = schema.merge_key
    former = {identify_element(one, key, f"{path} of the last manifest"): one for one in last}
    wanted = {identify_element(one, key, f"{path}/{number}"): one for number, one in enumerate(manifest)}
    gone = [one for identity, one in former.items() if identity not in wanted]
    order = f"$setElementOrder/{name}"
    if key is None:
        removed = {f"$deleteFromPrimitiveList/{name}": gone} if gone else {}
        return {name: manifest, order: manifest, **removed}
    elements: list[JSON] = []
    for number, (identity, one) in enumerate(wanted.items()):
        element = _build_strategic_patch(former.get(identity, {}), one, schema, path=f"{path}/{number}")
        elements.append({**element, "$retainKeys": list(one)} if schema.retain_keys else element)
    elements += [{key: one[key], "$patch": "delete"} for one in gone]
    return {name: elements, order: [{key: one[key]} for one in manifest]}
