"""Lists the objects that an object depends on, sorted by kind and name, without duplicates.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/dependencies.go, pkg/util/lifted/visitpod.go.
"""

from typing import Final

from fleethook.interpret.interpreter import InterpretError
from fleethook.interpret.typed_fields import mapping, objects, text
from fleethook.model.formats.names_and_labels import label_value_problem
from fleethook.model.json import JSONObject


def list_template_dependencies(pod_template: JSONObject, namespace: str) -> list[JSONObject]:
    """Return the objects that a Pod of this template depends on, sorted by kind and name, without duplicates."""
    spec = mapping(pod_template, "spec")
    config_maps: set[str] = set()
    secrets: set[str] = set()
    claims: set[str] = set()
    for reference in objects(spec, "imagePullSecrets"):
        secrets.add(text(reference, "name"))
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for container in objects(spec, member):
            _collect_environment(container, config_maps, secrets)
    for volume in objects(spec, "volumes"):
        _collect_volume(volume, config_maps, secrets)
        claims.add(text(volume, "persistentVolumeClaim", "claimName"))
    account = text(spec, "serviceAccountName") or text(spec, "serviceAccount")
    accounts = {account} - {"default"}
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
        for kind, names in (
            ("ConfigMap", config_maps), ("Secret", secrets), ("ServiceAccount", accounts),
            ("PersistentVolumeClaim", claims),
        )
        for name in sorted(names - {""})
    ]  # fmt: skip


def _collect_environment(container: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    for source in objects(container, "envFrom"):
        config_maps.add(text(source, "configMapRef", "name"))
        secrets.add(text(source, "secretRef", "name"))
    for variable in objects(container, "env"):
        if "valueFrom" not in variable:
            continue
        config_maps.add(text(variable, "valueFrom", "configMapKeyRef", "name"))
        secrets.add(text(variable, "valueFrom", "secretKeyRef", "name"))


_SECRET_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "azureFile": ("azureFile", "secretName"),
    "secret": ("secret", "secretName"),
    "csi": ("csi", "nodePublishSecretRef", "name"),
    **{
        source: (source, "secretRef", "name")
        for source in ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
    },
}


def _collect_volume(volume: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    for member in volume:
        if member == "configMap":
            config_maps.add(text(volume, "configMap", "name"))
        elif member == "projected":
            for source in objects(volume, "projected", "sources"):
                config_maps.add(text(source, "configMap", "name"))
                secrets.add(text(source, "secret", "name"))
        elif member in _SECRET_PATHS:
            secrets.add(text(volume, *_SECRET_PATHS[member]))


def _read_namespace(document: JSONObject) -> str:
    return text(document, "metadata", "namespace")


def workload(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of the Pods of a workload."""
    return list_template_dependencies(mapping(document, "spec", "template"), _read_namespace(document))


def cron_job(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of the Pods of a CronJob."""
    return list_template_dependencies(
        mapping(document, "spec", "jobTemplate", "spec", "template"), _read_namespace(document)
    )


def pod(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of a Pod."""
    return list_template_dependencies(document, _read_namespace(document))


def stateful_set(document: JSONObject) -> list[JSONObject]:
    """List the dependencies of the Pods of a StatefulSet, without claims of its own volumeClaimTemplates."""
    claims = {text(template, "metadata", "name") for template in objects(document, "spec", "volumeClaimTemplates")}
    return [
        reference
        for reference in workload(document)
        if reference["kind"] != "PersistentVolumeClaim" or reference["name"] not in claims
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
