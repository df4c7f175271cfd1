"""The objects of a request as kube-apiserver shows them to webhooks: with defaults, names and members that it sets.

tests/conformance/admission_objects.yaml has objects that a kube-apiserver showed.
"""

from collections.abc import Sequence
from typing import Final

from fleethook.model.admission import AdmissionRequest
from fleethook.model.json import JSON, JSONObject, as_object, as_text, copy_json, list_objects
from fleethook.workload_schema.custom_resource_schema import OWN_MEMBERS, CustomVersion, set_schema_defaults
from fleethook.workload_schema.defaults import METADATA, set_created, set_defaults
from fleethook.workload_schema.stored_form_and_aliases import normalize_struct

GENERATED: Final = "xxxxx"
"""Stands for the random end of a generated name."""
_UID: Final = "00000000-0000-0000-0000-000000000000"
_TIME: Final = "2000-01-01T00:00:00Z"
# An update cannot change them.
_KEPT: Final = ("uid", "resourceVersion", "creationTimestamp", "generation")

_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300
_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_NAMESPACE_REF: Final = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
_TOKEN: Final[JSONObject] = {
    "name": f"kube-api-access-{GENERATED}",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": _NAMESPACE_REF}]}},
        ],
        "defaultMode": 420,
    },
}


def show_request(request: AdmissionRequest, version: CustomVersion | None, *, validating: bool) -> AdmissionRequest:
    """Return a request of a client with the objects and the name that kube-apiserver shows to webhooks of a phase.

    Args:
        request: The request, with the object as a client sends it. The stored object may lack members.
        version: The version of a custom resource, None for a built-in kind and for one without definition.
        validating: Whether a validating webhook is called. kube-apiserver has prepared the object for storage then.
    """
    new, old = (None if one is None else decode(one, version) for one in (request.object, request.old_object))
    if old is not None and isinstance(old.get("metadata"), dict):
        old = {**old, "metadata": {"uid": _UID, "creationTimestamp": _TIME} | old["metadata"]}
    creates = request.operation == "CREATE" and not request.sub_resource
    if new is not None and isinstance(new.get("metadata"), dict):
        if creates:
            new = _create(new, version, validating=validating)
        elif request.operation == "UPDATE" and old is not None and validating:
            new = _update(new, old, request.sub_resource, version)
    shown = request.with_objects(new, old)
    if not shown.name and creates:
        shown.name = as_text(as_object(as_object(new).get("metadata")).get("name"))
    return shown


# Members of built-in kinds that kube-apiserver, or an admission plugin, sets to values that depend on the cluster.
_SET_BY_CLUSTER: Final = {
    "v1 Node": ("spec.podCIDRs", "spec.taints"),
    "v1 PersistentVolumeClaim": ("spec.storageClassName",),
    "v1 Pod": ("spec.priority", "status.qosClass"),
    "v1 Service": (
        "spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort", "spec.ipFamilies", "spec.ipFamilyPolicy",
        "spec.ports.*.nodePort",
    ),
    "batch/v1 Job": ("spec.selector", "spec.template.metadata.labels"),
    "networking.k8s.io/v1 Ingress": ("spec.ingressClassName",),
}  # fmt: skip


def may_be_set(document: JSONObject, path: Sequence[str], *, has_defaults: bool) -> bool:
    """Return whether kube-apiserver may set a member that an object of `show_request` lacks.

    Args:
        document: The object.
        path: The members on the way, ``*`` for an element of a list.
        has_defaults: Whether the defaults of its kind are known.
    """
    if not _lacks(document, path):
        return False
    name = ".".join(path)
    known = ("metadata.managedFields", *_SET_BY_CLUSTER.get(f"{document.get('apiVersion')} {document.get('kind')}", ()))
    return f"{name}.".startswith(tuple(f"{one}." for one in known)) or not (has_defaults or path[0] in OWN_MEMBERS)


def _lacks(value: JSON, path: Sequence[str]) -> bool:
    """Return whether a value lacks a member, or one of its elements does."""
    if not path:
        return False
    if path[0] == "*":
        return isinstance(value, list) and any(_lacks(one, path[1:]) for one in value)
    return not isinstance(value, dict) or path[0] not in value or _lacks(value[path[0]], path[1:])


def decode(document: JSONObject, version: CustomVersion | None) -> JSONObject:
    """Return an object with its defaults, as kube-apiserver decodes it, also after a change of a webhook."""
    if isinstance(document.get("metadata"), dict):
        document = {**document, "metadata": normalize_struct(METADATA, document["metadata"])}
    if version is None:
        return set_defaults(document)
    own = {name: document[name] for name in OWN_MEMBERS if name in document}
    shown = set_schema_defaults(document, version.schema, prune=True) if version.schema else document
    return {**shown, **own}


def _create(document: JSONObject, version: CustomVersion | None, *, validating: bool) -> JSONObject:
    created: JSONObject = copy_json(document)
    set_created(created, step="CREATE")
    if (created.get("apiVersion"), created.get("kind")) == ("v1", "Pod"):
        _add_tolerations(created)
        _add_token(created)
    if not validating:
        return created
    metadata = created["metadata"]
    metadata.pop("generation", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{GENERATED}"
    if version is None or version.has_status:
        created.pop("status", None)
    stored = set_defaults(created)
    if stored is created:
        metadata["generation"] = 1
    set_created(stored, step="STORE")
    stored["metadata"].update({"uid": _UID, "creationTimestamp": _TIME})
    return stored


def _update(new: JSONObject, old: JSONObject, subresource: str, version: CustomVersion | None) -> JSONObject:
    """Return the object of an update as validating webhooks get it: with the members that the update cannot change."""
    kept = {name: old["metadata"][name] for name in _KEPT if name in as_object(old.get("metadata"))}
    updated = {**new, "metadata": {**new["metadata"], **kept}}
    if not subresource and "status" in old and (version is None or version.has_status):
        updated["status"] = old["status"]
    elif subresource == "status":
        # The status of a custom resource leaves metadata as it is (apiextensions-apiserver, statusStrategy).
        metadata = updated["metadata"] if version is None else old["metadata"]
        updated = {**old, "metadata": metadata, **({"status": new["status"]} if "status" in new else {})}
    return updated


def _add_tolerations(pod: JSONObject) -> None:
    """Add tolerations as the admission plugin DefaultTolerationSeconds does."""
    given = list_objects(as_object(pod.get("spec")).get("tolerations"))
    for taint in _TAINTS:
        keys, effects = ("", None, taint), ("", None, "NoExecute")
        if not any(one.get("key") in keys and one.get("effect") in effects for one in given):
            added = {
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _TOLERATION_SECONDS,
            }
            pod["spec"].setdefault("tolerations", []).append(added)


def _add_token(pod: JSONObject) -> None:
    """Mount the token as the admission plugin ServiceAccount does for an account that does not refuse it."""
    spec = as_object(pod.get("spec"))
    if spec.get("automountServiceAccountToken") is False:
        return
    containers = [*list_objects(spec.get("initContainers")), *list_objects(spec.get("containers"))]
    lacking = [
        container
        for container in containers
        if not any(mount.get("mountPath") == _TOKEN_PATH for mount in list_objects(container.get("volumeMounts")))
    ]
    for one in lacking:
        mount = {"name": _TOKEN["name"], "readOnly": True, "mountPath": _TOKEN_PATH}
        one.setdefault("volumeMounts", []).append(mount)
    if lacking:
        pod["spec"].setdefault("volumes", []).append(_TOKEN)
