"""The three-way merge of ``kubectl apply``, and an object as the API server holds it after a manifest was applied.

The merge compares the last applied manifest, the new manifest and the live object. Fields of the last manifest that the
new one lacks are removed, fields of the new manifest are set, and all other fields of the live object stay. Sources:
k8s.io/apimachinery, util/strategicpatch (CreateThreeWayMergePatch) for kinds with merge keys, util/jsonmergepatch
(CreateThreeWayJSONMergePatch) for all other kinds, such as custom resources.

`apply_manifest` chooses between this merge and a replacement:

- If the object has kubectl's annotation ``last-applied-configuration``, the result is that of ``kubectl apply``.
- Otherwise another tool wrote the object, such as Helm or server-side apply. That tool removes the fields that its new
  manifest lacks, so the manifest replaces the object. Metadata that the API server sets, the status and the
  ``caBundle`` of webhooks stay, if the manifest lacks them.
- If the manifest has another version than the object, the manifest replaces the object in the same way.

The API server's defaults, conversions and mutating webhooks are not applied.
"""

from typing import Final

import msgspec

from fleethook.model.gvk import parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import MergeSchema, find_merge_schema
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


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SERVER_METADATA: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
)


def apply_manifest(manifest: JSONObject, live: JSONObject | None) -> JSONObject:
    """Return the object after a manifest was applied to it. The arguments stay unchanged.

    Args:
        manifest: An object with metadata.
        live: The object before, None if there is none.

    Raises:
        StrategicMergeError: ``kubectl apply`` would fail, for example because a webhook has no name.
    """
    if live is None:
        return manifest
    last = _read_last_applied(live)
    if last is None or manifest["apiVersion"] != live["apiVersion"]:
        return _replace(manifest, live)
    schema = find_merge_schema(parse_api_version(manifest["apiVersion"])[0])
    return merge_three_way(last, _annotate(manifest), live, schema=schema)


def _annotate(manifest: JSONObject) -> JSONObject:
    """Return a manifest with its own text as annotation, as ``kubectl apply`` sends it (kubectl, pkg/util/apply.go)."""
    metadata = manifest["metadata"]
    annotations = {name: text for name, text in as_object(metadata.get("annotations")).items() if name != LAST_APPLIED}
    text = msgspec.json.encode({**manifest, "metadata": {**metadata, "annotations": annotations}}).decode()
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: f"{text}\n"}}}


def _read_last_applied(live: JSONObject) -> JSONObject | None:
    text = as_object(live["metadata"].get("annotations")).get(LAST_APPLIED)
    try:
        return msgspec.json.decode(text, type=dict) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return None


def _replace(manifest: JSONObject, live: JSONObject) -> JSONObject:
    kept = {name: live["metadata"][name] for name in _SERVER_METADATA if name in live["metadata"]}
    replaced = {**manifest, "metadata": {**kept, **manifest["metadata"]}}
    if "status" in live:
        replaced.setdefault("status", live["status"])
    if isinstance(manifest.get("webhooks"), list):
        replaced["webhooks"] = _keep_bundles(manifest["webhooks"], live)
    return replaced


def _keep_bundles(webhooks: list[JSON], live: JSONObject) -> list[JSON]:
    """Return webhooks with the CAs that a controller such as cert-manager has set."""
    present = live.get("webhooks")
    bundles = {
        str(as_object(one).get("name")): as_object(as_object(one).get("clientConfig")).get("caBundle")
        for one in (present if isinstance(present, list) else ())
    }
    return [_keep_bundle(one, bundles.get(str(as_object(one).get("name")))) for one in webhooks]


def _keep_bundle(webhook: JSON, bundle: JSON) -> JSON:
    config = as_object(webhook).get("clientConfig")
    if bundle is None or not isinstance(config, dict) or "caBundle" in config:
        return webhook
    return {**webhook, "clientConfig": {**config, "caBundle": bundle}}
