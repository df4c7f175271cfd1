"""The changes of ``--change`` and ``--without``: objects as they are after ``kubectl replace`` and ``kubectl delete``.

A user names an object as ``KIND[.GROUP]/[NAMESPACE/]NAME[@CLUSTER]``.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from fleethook.cli.exit_codes import fail
from fleethook.cli.inputs.sources import NAMESPACED
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.model.gvk import GroupKind, guess_plural
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.kcp import CLUSTER_ANNOTATION


class ObjectName(NamedTuple):
    """A name that a user wrote. Each part that is None matches all objects.

    Attributes:
        text: The name as written.
        kind: Kind or plural in lower case.
        group: API group.
        namespace: Namespace.
        name: Name of the object.
        cluster: Logical cluster.
    """

    text: str
    kind: str
    group: str | None
    namespace: str | None
    name: str
    cluster: str | None

    def matches(self, key: ObjectKey) -> bool:
        """Return whether this is a name of the object."""
        return (
            self.matches_kind(key.group_kind)
            and self.name == key.name
            and self.namespace in (None, key.namespace, *(() if key.namespace else ("default",)))
            and self.cluster in (None, key.cluster)
        )

    def matches_kind(self, group_kind: GroupKind) -> bool:
        """Return whether this is a name of an object of the kind."""
        kind = group_kind.kind.lower()
        return self.kind in (kind, guess_plural(kind)) and self.group in (None, group_kind.group)


def parse_name(text: str, *, option: str = "--without") -> ObjectName:
    """Return the parts of a name. Exits with a message if it has another form."""
    kinded, _, cluster = text.partition("@")
    parts = kinded.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        fail(f"{option} {text}: expected KIND/NAME, as in YurtAppSet/default/demo")
    kind, separator, group = parts[0].partition(".")
    namespace = parts[1] if len(parts) == 3 else None
    return ObjectName(text, kind.lower(), group if separator else None, namespace, parts[-1], cluster or None)


def describe_key(key: ObjectKey) -> str:
    """Return the full name of an object, which `parse_name` reads."""
    name = f"{key.namespace}/{key.name}" if key.namespace else key.name
    return f"{key.group_kind}/{name}{f'@{key.cluster}' if key.cluster else ''}"


_DEFAULT_NAMESPACE: Final = "default"
_MAX_CANDIDATES: Final = 10
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


class Overlay(NamedTuple):
    """Changes to objects.

    Attributes:
        manifests: Objects to apply.
        without: Objects to remove, each as ``KIND[.GROUP]/[NAMESPACE/]NAME[@CLUSTER]``.
        namespace: Namespace of manifests that name none, None to leave them without.
        kcp: Whether each object needs a logical cluster.
    """

    manifests: Sequence[Document]
    without: Sequence[str]
    namespace: str | None = None
    kcp: bool = False


class Changed(NamedTuple):
    """Changed objects, and the keys of those that were added, changed or removed."""

    documents: list[Document]
    keys: frozenset[ObjectKey]


def overlay(documents: Sequence[Document], changes: Overlay) -> Changed:
    """Return the objects with the changes. Exits with a message if a change does not fit.

    A manifest replaces the object with its cluster, group, kind, namespace and name, or adds it. Removals name objects
    as they are before the changes.

    Args:
        documents: The objects. Of two with the same key, the later one counts.
        changes: The changes.
    """
    objects = {key_of(one.object): one for one in documents}
    namespaced = NAMESPACED | {key.group_kind for key in objects if key.namespace}
    applied: dict[ObjectKey, Document] = {}
    for manifest in changes.manifests:
        located = _set_namespace(manifest, objects, namespace=changes.namespace, namespaced=namespaced)
        key = key_of(located.object)
        if changes.kcp and not key.cluster:
            fail(f"{manifest.place}: the logical cluster is unknown: add the annotation {CLUSTER_ANNOTATION}")
        if key in applied:
            first = applied[key].place
            fail(f"{manifest.place}: {describe_key(key)} is already defined at {first}; remove one of them")
        present = objects.get(key)
        applied[key] = located if present is None else located._replace(object=_replace(located.object, present.object))
    removed = frozenset(_find_one(parse_name(text), objects) for text in changes.without)
    for key in removed & applied.keys():
        fail(f"--without and --change ({applied[key].place}) both name {describe_key(key)}: remove one of them")
    return Changed(list(_change(documents, applied, removed)), frozenset(applied.keys() | removed))


def _change(
    documents: Sequence[Document], applied: dict[ObjectKey, Document], removed: Collection[ObjectKey]
) -> Iterable[Document]:
    """Yield the objects that stay or change in their order, then the added ones."""
    done: set[ObjectKey] = set()
    for one in documents:
        key = key_of(one.object)
        if key not in applied and key not in removed:
            yield one
        elif key in applied and key not in done:
            done.add(key)
            yield applied[key]
    yield from (one for key, one in applied.items() if key not in done)


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


def _find_one(name: ObjectName, objects: Collection[ObjectKey]) -> ObjectKey:
    """Return the key of the only object with a name. Exits with the candidates if there is none, or several."""
    found = [key for key in objects if name.matches(key)]
    if len(found) == 1:
        return found[0]
    if found:
        fail(f"--without {name.text} names several objects; give one of {_list_candidates(found)}")
    similar = [key for key in objects if name.matches_kind(key.group_kind)]
    if similar:
        return fail(f"--without {name.text}: no such object; there are {_list_candidates(similar)}")
    kinds = ", ".join(sorted({str(key.group_kind) for key in objects}))
    return fail(f"--without {name.text}: no object of this kind; the kinds are {kinds or 'none'}")


def _list_candidates(keys: Iterable[ObjectKey]) -> str:
    names = sorted(describe_key(key) for key in keys)
    more = f" and {len(names) - _MAX_CANDIDATES} more" if len(names) > _MAX_CANDIDATES else ""
    return f"{', '.join(names[:_MAX_CANDIDATES])}{more}"
