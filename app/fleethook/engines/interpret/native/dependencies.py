"""Lists the objects that an object depends on, sorted by kind and name, without duplicates.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/dependencies.go.
"""

from typing import Final

from fleethook.engines.interpret.native import pod_templates
from fleethook.interpret.typed_members import InterpretError, objects, text
from fleethook.model.formats.labels import label_value_problem
from fleethook.model.json import JSONObject


def _read_namespace(document: JSONObject) -> str:
    return text(document, "metadata", "namespace")


def workload(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of the Pods of a workload."""
    return pod_templates.dependencies(pod_templates.template_of(document), _read_namespace(document))


def cron_job(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of the Pods of a CronJob."""
    return pod_templates.dependencies(
        pod_templates.template_of(document, "spec", "jobTemplate", "spec", "template"), _read_namespace(document)
    )


def pod(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of a Pod."""
    return pod_templates.dependencies(document, _read_namespace(document))


def stateful_set(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of the Pods of a StatefulSet, without claims of its own volumeClaimTemplates."""
    made = {text(template, "metadata", "name") for template in objects(document, "spec", "volumeClaimTemplates")}
    return [
        reference
        for reference in workload(document)
        if reference["kind"] != "PersistentVolumeClaim" or reference["name"] not in made
    ]


def ingress(document: JSONObject) -> list[JSONObject]:
    """List the TLS Secrets of an Ingress, and the Services to which it sends requests.

    TLS without a Secret is legal, but an error in Karmada v1.16.
    """
    secrets = {text(tls, "secretName") for tls in objects(document, "spec", "tls")}
    services = {text(document, "spec", "defaultBackend", "service", "name")}
    for rule in objects(document, "spec", "rules"):
        services |= {text(path, "backend", "service", "name") for path in objects(rule, "http", "paths")}
    namespace = _read_namespace(document)
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
        for kind, names in (("Secret", secrets), ("Service", services))
        for name in sorted(names - {""})
    ]


_VOLUME_SECRETS: Final = (
    *(("csi", f"{use}SecretRef") for use in (
        "controllerPublish", "nodeStage", "nodePublish", "controllerExpand", "nodeExpand",
    )),
    *((source, "secretRef") for source in (
        "cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos",
    )),
)  # fmt: skip
"""References to Secrets in a PersistentVolume (Kubernetes pkg/api/v1/persistentvolume: VisitPVSecretNames)."""


def persistent_volume(document: JSONObject) -> list[JSONObject]:
    """List the Secrets with which nodes and controllers access a PersistentVolume.

    A reference without a namespace is to a Secret in the namespace of the claim.
    """
    claimed = text(document, "spec", "claimRef", "namespace")
    found = {
        (text(document, "spec", *path, "namespace") or claimed, text(document, "spec", *path, "name"))
        for path in _VOLUME_SECRETS
    }
    share = text(document, "spec", "azureFile", "secretNamespace") or claimed
    found.add((share, text(document, "spec", "azureFile", "secretName")))
    return [
        {"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": name}
        for namespace, name in sorted(found)
        if namespace and name
    ]


def service_import(document: JSONObject) -> list[JSONObject]:
    """List the Service that is derived from a ServiceImport, and its EndpointSlices."""
    name = text(document, "metadata", "name")
    derived = f"derived-{name}"
    if not name or label_value_problem(derived):
        raise InterpretError(f"metadata.name is {name!r}, which is not usable in the name of the derived Service")
    namespace = _read_namespace(document)
    return [
        {"apiVersion": "v1", "kind": "Service", "namespace": namespace, "name": derived},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "namespace": namespace,
            "labelSelector": {"matchLabels": {"kubernetes.io/service-name": derived}},
        },
    ]
