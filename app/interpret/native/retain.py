"""Retains the values that a member cluster decided; one function for each kind.

Each function takes the desired and the observed object, and returns the desired object with the retained values. It
changes neither of them.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/retain.go, pkg/util/lifted/retain.go.
"""

from typing import Final

from app.interpret.access import InterpretError, count, listing, mapping, number, objects, present, text, with_member
from app.model.json import JSON, JSONObject
from app.model.karmada import RETAIN_REPLICAS_LABEL


def deployment(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the replica count of a Deployment whose label says that the member cluster scales it."""
    if text(desired, "metadata", "labels", RETAIN_REPLICAS_LABEL) != "true":
        return desired
    replicas = number(observed, "spec", "replicas")
    if replicas is None:
        metadata = mapping(observed, "metadata")
        place = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
        raise InterpretError(f"failed to get spec.replicas from {observed.get('kind') or ''} {place}")
    return with_member(desired, replicas, "spec", "replicas")


def pod(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the node, the service account and the volumes of a Pod, which admission in the member cluster sets."""
    kept = desired
    for member, read in (("nodeName", text), ("serviceAccountName", text), ("volumes", objects)):
        if present(observed, "spec", member):
            kept = with_member(kept, read(observed, "spec", member), "spec", member)
    for member in ("initContainers", "containers"):
        mounts = {
            text(container, "name"): objects(container, "volumeMounts")
            for container in objects(observed, "spec", member)
            if container.get("volumeMounts") is not None
        }
        if mounts and present(kept, "spec", member):
            containers = [
                {**container, "volumeMounts": mounts[text(container, "name")]}
                if text(container, "name") in mounts
                else container
                for container in objects(kept, "spec", member)
            ]
            kept = with_member(kept, containers, "spec", member)
    return kept


def service(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the addresses and node ports that the member cluster allocated to a Service. Addresses are immutable."""
    kept = desired
    if count(observed, "spec", "healthCheckNodePort") > 0:
        kept = with_member(kept, observed["spec"]["healthCheckNodePort"], "spec", "healthCheckNodePort")
    cluster_ip = mapping(observed, "spec").get("clusterIP")
    if cluster_ip is not None and not isinstance(cluster_ip, str):
        raise InterpretError(f"error retrieving clusterIP from cluster service: {cluster_ip!r} is not a string")
    if cluster_ip:
        kept = with_member(kept, cluster_ip, "spec", "clusterIP")
        if addresses := listing(observed, "spec", "clusterIPs"):
            kept = with_member(kept, addresses, "spec", "clusterIPs")
    return _retain_node_ports(kept, observed)


def _retain_node_ports(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Set the node ports that the member cluster allocated, unless a port requests one or the type has none."""
    if text(desired, "spec", "type") not in ("NodePort", "LoadBalancer"):
        return desired
    allocated = {
        _make_port_key(port): port["nodePort"] for port in objects(observed, "spec", "ports") if port.get("nodePort")
    }
    wanted = objects(desired, "spec", "ports")
    ports = [
        port if port.get("nodePort") or _make_port_key(port) not in allocated
        else {**port, "nodePort": allocated[_make_port_key(port)]}
        for port in wanted
    ]  # fmt: skip
    return desired if ports == wanted else with_member(desired, ports, "spec", "ports")


def _make_port_key(port: JSONObject) -> tuple[JSON, JSON]:
    # Port and protocol identify a port of a Service; its name may change.
    return port.get("port"), port.get("protocol") or "TCP"


def service_account(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the token and pull secrets that the member cluster added to a ServiceAccount, after the desired ones."""
    kept = desired
    for member in ("secrets", "imagePullSecrets"):
        wanted = objects(desired, member)
        names = {element.get("name") for element in wanted}
        added = [element for element in objects(observed, member) if element.get("name") not in names]
        if added:
            kept = with_member(kept, [*wanted, *added], member)
    return kept


def persistent_volume_claim(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the volume that a PersistentVolumeClaim is bound to."""
    name = text(observed, "spec", "volumeName")
    return with_member(desired, name, "spec", "volumeName") if name else desired


def persistent_volume(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the claim that a PersistentVolume is bound to."""
    claim = mapping(observed, "spec").get("claimRef")
    return desired if claim is None else with_member(desired, claim, "spec", "claimRef")


_JOB_LABELS: Final = (("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels"))


def job(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the selector and labels that the member cluster's controller set on a Job; they are immutable."""
    kept = desired
    for path in _JOB_LABELS:
        if present(observed, *path):
            kept = with_member(kept, mapping(observed, *path), *path)
    return kept


def secret(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the data of a service account token, because each cluster issues its own."""
    if text(desired, "type") != "kubernetes.io/service-account-token" or not present(observed, "data"):
        return desired
    return with_member(desired, mapping(observed, "data"), "data")
