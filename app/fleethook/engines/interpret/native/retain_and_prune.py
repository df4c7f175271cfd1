"""Members that belong to one cluster: retains the values that a member cluster decided, and removes those of another.

The function of a kind takes the desired and the observed object, and returns the desired object with the retained
values. It changes neither of them. `prune` is for objects of all kinds (ExplorePacking of the proposal). Karmada
compares only the name of the kind there, so a custom resource with kind Job loses labels. fleethook also compares the
group.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/retain.go and prune, pkg/util/lifted/retain.go.
"""

from collections.abc import Callable
from typing import Any, Final

from fleethook.interpret.interpreter import InterpretError
from fleethook.interpret.typed_fields import listing, mapping, number, objects, present, text, with_member, without
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject

RETAIN_REPLICAS_LABEL: Final = "resourcetemplate.karmada.io/retain-replicas"
_POD_OF_THE_CLUSTER: Final = (
    "nodeName", "serviceAccountName", "serviceAccount", "volumes", "priority", "preemptionPolicy", "resources",
    "schedulerName", "schedulingGates",
)  # fmt: skip
_CONTAINER_OF_THE_CLUSTER: Final = ("volumeMounts", "resources", "imagePullPolicy")
"""Members that admission in the member cluster sets, also if the template has them. kube-apiserver refuses changes."""

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("containers", "initContainers", "ephemeralContainers", "volumes", "env", "imagePullSecrets", "resourceClaims"),
        ("name",),
    ),
    "volumeMounts": ("mountPath",), "volumeDevices": ("devicePath",), "hostAliases": ("ip",),
    "schedulingGates": ("name",), "ports": ("containerPort", "protocol"), "readinessGates": ("conditionType",),
    "envFrom": ("prefix", "configMapRef", "secretRef"), "tolerations": ("key", "operator", "value", "effect"),
}  # fmt: skip
"""The members that identify an element of each list."""


def deployment(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the replicas of a Deployment that the member cluster scales, for example by a HorizontalPodAutoscaler."""
    if text(desired, "metadata", "labels", RETAIN_REPLICAS_LABEL) != "true":
        return desired
    replicas = number(observed, "spec", "replicas")
    if replicas is None:
        name = f"{text(observed, 'metadata', 'namespace')}/{text(observed, 'metadata', 'name')}"
        raise InterpretError(
            f"failed to get spec.replicas from Deployment {name}: the object has the label {RETAIN_REPLICAS_LABEL}, "
            "but no number of replicas in the member cluster"
        )
    return with_member(desired, replicas, "spec", "replicas")


def pod(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain all that the member cluster's admission and scheduler added to a Pod, for example injected containers.

    Almost every member of a Pod is immutable (pkg/apis/core/validation: ValidatePodUpdate), so the apiserver refuses an
    update that lacks an added member. If both Pods have a member, the value of the template stays, for example a new
    image. Exceptions are the members that admission sets even if the template has them.
    """
    spec = mapping(observed, "spec")
    if not spec:
        return desired
    kept: JSONObject = dict(_add_members("spec", mapping(desired, "spec"), spec))
    _take_members(kept, spec, _POD_OF_THE_CLUSTER)
    if "schedulingGates" not in spec:
        kept.pop("schedulingGates", None)  # Gates cannot be added to a Pod.
    for member in ("initContainers", "containers"):
        by_name = {text(container, "name"): container for container in objects(spec, member)}
        containers = [dict(container) for container in objects(kept, member)]
        for container in containers:
            _take_members(container, by_name.get(text(container, "name"), {}), _CONTAINER_OF_THE_CLUSTER)
        if containers:
            kept[member] = containers
    return desired if kept == desired.get("spec") else {**desired, "spec": kept}


def _take_members(kept: JSONObject, observed: JSONObject, names: tuple[str, ...]) -> None:
    kept.update({name: observed[name] for name in names if observed.get(name) is not None})


def _add_members(name: str, desired: JSON, observed: JSON) -> Any:
    """Return a value of the template with the members and elements that only the observed value has, in its order."""
    if name in _KEYS:
        return _add_elements(_KEYS[name], objects({name: desired}, name), objects({name: observed}, name))
    if isinstance(desired, dict) and isinstance(observed, dict):
        names = observed | desired
        return {member: _add_members(member, desired.get(member), observed.get(member)) for member in names}
    return observed if desired is None else desired


def _add_elements(keys: tuple[str, ...], desired: list[JSONObject], observed: list[JSONObject]) -> list[JSON]:
    def identify(element: JSONObject) -> str:
        return repr([element.get(key) or ("TCP" if key == "protocol" else None) for key in keys])

    waiting: dict[str, list[JSONObject]] = {}
    for element in desired:
        waiting.setdefault(identify(element), []).append(element)
    merged: list[JSON] = []
    for element in observed:
        same = waiting.get(identify(element))
        merged.append(_add_members("", same.pop(0), element) if same else element)
    return [*merged, *(element for rest in waiting.values() for element in rest)]


def service(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the addresses and ports that the member cluster allocated to a Service, as far as its new type has them.

    kube-apiserver refuses other values, or drops them (pkg/apis/core/validation: ValidateService;
    pkg/registry/core/service: patchAllocatedValues and dropTypeDependentFields).
    """
    cluster_ip = mapping(observed, "spec").get("clusterIP")
    if cluster_ip is not None and not isinstance(cluster_ip, str):
        raise InterpretError(f"error retrieving clusterIP from cluster service: {cluster_ip!r} is not a string")
    kind = text(desired, "spec", "type") or "ClusterIP"
    if kind == "ExternalName":
        return desired
    kept = _retain_addresses(desired, observed, kind)
    if kind == "LoadBalancer":
        # Cloud controllers set the class by a webhook of the member cluster. It is immutable.
        for member, is_valid in (
            ("loadBalancerClass", not text(desired, "spec", "loadBalancerClass")),
            ("healthCheckNodePort", text(desired, "spec", "externalTrafficPolicy") == "Local"),
        ):
            if is_valid and (value := mapping(observed, "spec").get(member)):
                kept = with_member(kept, value, "spec", member)
    return _retain_node_ports(kept, observed, kind)


def _retain_addresses(desired: JSONObject, observed: JSONObject, kind: str) -> JSONObject:
    """Set the addresses of a Service and their families, which are immutable except the second ones.

    A Service with an address keeps it if the template becomes headless: kube-apiserver would refuse every update.
    It keeps none if its first family changes, or if a headless one gets another type: kube-apiserver refuses both.
    """
    address = text(observed, "spec", "clusterIP")
    families, found = listing(desired, "spec", "ipFamilies"), listing(observed, "spec", "ipFamilies")
    if (
        not address
        or (address == "None" and kind in _WITH_NODE_PORTS)
        or (families and found and families[0] != found[0])
    ):
        return desired
    policy = text(desired, "spec", "ipFamilyPolicy") or text(observed, "spec", "ipFamilyPolicy")
    kept = with_member(desired, policy, "spec", "ipFamilyPolicy") if policy else desired
    limit = 1 if policy == "SingleStack" else None
    addresses = listing(observed, "spec", "clusterIPs") or [address]
    # A template may name only the first family: its own apiserver has one, and kube-apiserver releases none by itself.
    kept_families = max(families, found[:limit], key=len)
    retained = {"clusterIP": address, "clusterIPs": addresses[:limit], "ipFamilies": kept_families}
    for member, value in retained.items():
        if value:
            kept = with_member(kept, value, "spec", member)
    return kept


_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")


def _retain_node_ports(desired: JSONObject, observed: JSONObject, kind: str) -> JSONObject:
    """Set the node ports that the member cluster allocated, unless a port requests one or the Service needs none."""
    spec = mapping(desired, "spec")
    if kind not in _WITH_NODE_PORTS or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False):
        return desired
    allocated = {
        _make_port_key(port): port["nodePort"] for port in objects(observed, "spec", "ports") if port.get("nodePort")
    }
    wanted = objects(desired, "spec", "ports")
    requested = {port.get("nodePort") for port in wanted}
    ports = [
        port if port.get("nodePort") or allocated.get(_make_port_key(port)) in {None, *requested}
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
    """Retain the volume that a PersistentVolumeClaim is bound to, and members of the cluster's admission.

    For example, admission sets the default storage class. All members are immutable, except the class of attributes.
    """
    spec = mapping(observed, "spec")
    added = {name: value for name, value in spec.items() if name != "volumeAttributesClassName" and value is not None}
    name = text(observed, "spec", "volumeName")
    kept = added | mapping(desired, "spec") | ({"volumeName": name} if name else {})
    return desired if kept == mapping(desired, "spec") else {**desired, "spec": kept}


def persistent_volume(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the claim that a PersistentVolume is bound to."""
    claim = mapping(observed, "spec").get("claimRef")
    return desired if claim is None else with_member(desired, claim, "spec", "claimRef")


_JOB_LABELS: Final = (("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels"))
_JOB_DEFAULTS: Final = ("completions", "completionMode", "managedBy")


def job(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the immutable members of a Job that the member cluster sets: selector, labels, and defaults."""
    kept = desired
    for path in _JOB_LABELS:
        if present(observed, *path):
            kept = with_member(kept, mapping(observed, *path), *path)
    for member in _JOB_DEFAULTS:
        value = mapping(observed, "spec").get(member)
        if value is not None and not present(kept, "spec", member):
            kept = with_member(kept, value, "spec", member)
    return kept


def secret(desired: JSONObject, observed: JSONObject) -> JSONObject:
    """Retain the data of a service account token, because each cluster issues its own."""
    if text(desired, "type") != "kubernetes.io/service-account-token" or not present(observed, "data"):
        return desired
    return with_member(desired, mapping(observed, "data"), "data")


_METADATA: Final = (
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
)  # fmt: skip


def prune(document: JSONObject) -> JSONObject:
    """Return ``document`` without the members that its own cluster has set."""
    for name in _METADATA:
        document = without(document, "metadata", name)
    document = without(document, "status")
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    rule = _RULES.get(GroupKind(group, str(document.get("kind") or "")))
    return document if rule is None else rule(document)


def _make_annotation_remover(*names: str) -> Callable[[JSONObject], JSONObject]:
    def remove(document: JSONObject) -> JSONObject:
        for name in names:
            document = without(document, "metadata", "annotations", name)
        return document

    return remove


def _prune_job(document: JSONObject) -> JSONObject:
    spec = document.get("spec")
    if isinstance(spec, dict) and spec.get("manualSelector") is not True:
        for label in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            document = without(document, "spec", "selector", "matchLabels", label)
            document = without(document, "spec", "template", "metadata", "labels", label)
        for label in ("job-name", "batch.kubernetes.io/job-name"):
            document = without(document, "spec", "template", "metadata", "labels", label)
    return without(document, "spec", "ttlSecondsAfterFinished")


def _prune_secret(document: JSONObject) -> JSONObject:
    if text(document, "type") != "kubernetes.io/service-account-token":
        return document
    document = without(document, "metadata", "annotations", "kubernetes.io/service-account.uid")
    return {**document, "data": None} if "data" in document else document


def _prune_service_account(document: JSONObject) -> JSONObject:
    prefix = f"{text(document, 'metadata', 'name')}-token-"
    secrets = objects(document, "secrets")
    kept = [secret for secret in secrets if not str(secret.get("name") or "").startswith(prefix)]
    return document if len(kept) == len(secrets) else {**document, "secrets": kept}


def _prune_service(document: JSONObject) -> JSONObject:
    if text(document, "spec", "clusterIP") == "None":
        return document
    return without(without(document, "spec", "clusterIP"), "spec", "clusterIPs")


_RULES: Final = {
    GroupKind("apps", "Deployment"): _make_annotation_remover(
        "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
    ),
    GroupKind("batch", "Job"): _prune_job,
    GroupKind("", "Secret"): _prune_secret,
    GroupKind("", "ServiceAccount"): _prune_service_account,
    GroupKind("", "Service"): _prune_service,
    GroupKind("", "PersistentVolumeClaim"): _make_annotation_remover("volume.kubernetes.io/selected-node"),
}
