"""An object as the API server holds it after a manifest was applied.

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
from fleethook.model.merge_keys import find_merge_schema
from fleethook.patch.three_way_merge import merge_three_way

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
