"""The changes of ``--change``: objects as they are after ``kubectl replace``."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from fleethook.cli.exit_codes import fail
from fleethook.cli.inputs.sources import NAMESPACED
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.kcp import CLUSTER_ANNOTATION

_DEFAULT_NAMESPACE: Final = "default"
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


class Changed(NamedTuple):
    """Changed objects, and the keys of those that were added or changed."""

    documents: list[Document]
    keys: frozenset[ObjectKey]


def overlay(
    documents: Sequence[Document], manifests: Sequence[Document], *, namespace: str | None = None, kcp: bool = False
) -> Changed:
    """Return the objects with the changes. Exits with a message if a change does not fit.

    A manifest replaces the object with its cluster, group, kind, namespace and name, or adds it.

    Args:
        documents: The objects. Of two with the same key, the later one counts.
        manifests: Objects to apply.
        namespace: Namespace of manifests that name none, None to leave them without.
        kcp: Whether each object needs a logical cluster.
    """
    objects = {key_of(one.object): one for one in documents}
    namespaced = NAMESPACED | {key.group_kind for key in objects if key.namespace}
    applied: dict[ObjectKey, Document] = {}
    for manifest in manifests:
        located = _set_namespace(manifest, objects, namespace=namespace, namespaced=namespaced)
        key = key_of(located.object)
        if kcp and not key.cluster:
            fail(f"{manifest.place}: the logical cluster is unknown: add the annotation {CLUSTER_ANNOTATION}")
        if key in applied:
            name = "/".join(filter(None, (key.group_kind.kind, key.namespace, key.name)))
            fail(f"{manifest.place}: {name} is already defined at {applied[key].place}; remove one of them")
        present = objects.get(key)
        applied[key] = located if present is None else located._replace(object=_replace(located.object, present.object))
    # Objects that change keep their places.
    return Changed([*{**objects, **applied}.values()], frozenset(applied))


def _set_namespace(
    manifest: Document,
    objects: dict[ObjectKey, Document],
    *,
    namespace: str | None,
    namespaced: Collection[GroupKind],
) -> Document:
    """Return a manifest in the namespace of the object that it changes.

    For a cluster, a manifest without namespace is in that of the kubeconfig's context, as for kubectl. In files, an
    object without namespace and one in the namespace ``default`` are the same object.
    """
    key = key_of(manifest.object)
    if namespace is not None:
        missing = not key.namespace and key.group_kind in namespaced
        return _move(manifest, namespace) if missing else manifest
    other = {"": _DEFAULT_NAMESPACE, _DEFAULT_NAMESPACE: ""}.get(key.namespace)
    if other is not None and key not in objects and key._replace(namespace=other) in objects:
        return _move(manifest, other)
    return manifest


def _move(manifest: Document, namespace: str) -> Document:
    metadata = {**manifest.object["metadata"], "namespace": namespace}
    if not namespace:
        del metadata["namespace"]
    return manifest._replace(object={**manifest.object, "metadata": metadata})


def _replace(manifest: JSONObject, live: JSONObject) -> JSONObject:
    """Return a manifest with the status, the metadata and the CAs that others set on the object."""
    kept = {name: live["metadata"][name] for name in _SERVER_METADATA if name in live["metadata"]}
    replaced = {**manifest, "metadata": {**kept, **manifest["metadata"]}}
    if "status" in live:
        replaced.setdefault("status", live["status"])
    if isinstance(manifest.get("webhooks"), list):
        replaced["webhooks"] = _keep_bundles(manifest["webhooks"], live)
    return replaced


def _keep_bundles(webhooks: list[JSON], live: JSONObject) -> list[JSON]:
    """Return webhooks with the CAs that a controller such as cert-manager has set."""
    bundles = {
        str(one.get("name")): as_object(one.get("clientConfig")).get("caBundle")
        for one in list_objects(live.get("webhooks"))
    }
    return [_keep_bundle(one, bundles.get(str(as_object(one).get("name")))) for one in webhooks]


def _keep_bundle(webhook: JSON, bundle: JSON) -> JSON:
    config = as_object(webhook).get("clientConfig")
    if bundle is None or not isinstance(config, dict) or "caBundle" in config:
        return webhook
    return {**webhook, "clientConfig": {**config, "caBundle": bundle}}
