"""kube-apiserver accepts each retained object: generated pairs of a desired and an observed object, sent to a real one.

No retained object may be refused if the apiserver accepts the desired object alone, neither as an update of the observed
object nor on its own, and the apiserver may drop none of the retained values. Objects that differ from the member
cluster's only in its own values and in members that may change are always accepted.
"""

import copy
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.engines.interpret.native.retain_and_prune import prune
from fleethook.model.karmada import Operation
from tests.e2e.cluster import Api
from tests.e2e.test_aggregated_statuses import kind_of

JSONObject = dict[str, Any]
Draw = random.Random


class Pair(NamedTuple):
    """An object in a member cluster, and the next version of its template; both without kind and metadata.

    Attributes:
        created: The object as the member cluster's admission creates it.
        desired: The next version of the template.
        controlled: Changes that controllers of the member cluster make after the creation.
    """

    created: JSONObject
    desired: JSONObject
    controlled: JSONObject


class Kind(NamedTuple):
    """Attributes:
    plural: The resource.
    pairs: The number of pairs.
    generate: Generates a pair.
    is_accepted: Whether no update may be refused.
    """

    plural: str
    pairs: int
    generate: Callable[[Draw], Pair]
    is_accepted: bool = True


def optional(draw: Draw, name: str, *values: Any) -> JSONObject:
    """Return a member with one of the values, or none."""
    chosen = draw.choice([None, *values])
    return {} if chosen is None else {name: copy.deepcopy(chosen)}


def any_service(draw: Draw) -> JSONObject:
    kind = draw.choice(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])
    spec: JSONObject = {"type": kind} if kind != "ClusterIP" or draw.random() < 0.5 else {}
    ports = []
    for name in draw.sample("abc", draw.randint(1, 3)):
        port = {"name": name, "port": draw.randint(80, 82), **optional(draw, "protocol", "TCP", "UDP")}
        if kind in ("NodePort", "LoadBalancer") and draw.random() < 0.25:
            port["nodePort"] = draw.randint(30080, 30082)
        ports.append(port)
    spec["ports"] = list({(one["port"], one.get("protocol", "TCP")): one for one in ports}.values())
    if kind == "ExternalName":
        return {**spec, "externalName": "a.example.org"}
    spec |= optional(draw, "selector", {"app": "a"}) | optional(draw, "internalTrafficPolicy", "Local")
    spec |= optional(draw, "sessionAffinity", "ClientIP")
    spec |= optional(draw, "ipFamilyPolicy", "SingleStack", "PreferDualStack", "RequireDualStack")
    if draw.random() < 0.3:
        spec |= optional(draw, "ipFamilies", ["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"])
    if kind == "ClusterIP" and draw.random() < 0.3:
        spec["clusterIP"] = "None"
    if kind in ("NodePort", "LoadBalancer"):
        spec |= optional(draw, "externalTrafficPolicy", "Local", "Cluster")
    if kind == "LoadBalancer":
        spec |= optional(draw, "allocateLoadBalancerNodePorts", True, False)
        spec |= optional(draw, "loadBalancerClass", "example.org/a")
    return spec


def service(draw: Draw) -> Pair:
    """Two Services that have nothing in common, or most members."""
    first, second = any_service(draw), any_service(draw)
    if draw.random() < 0.5:
        second = first | {name: second[name] for name in draw.sample(sorted(second), min(2, len(second)))}
    return Pair({"spec": first}, {"spec": second}, {})


def service_account(draw: Draw) -> Pair:
    def names(member: str) -> JSONObject:
        return {member: [{"name": name} for name in draw.sample("abcd", draw.randint(0, 3))]}

    return Pair(names("secrets") | names("imagePullSecrets"), names("secrets") | names("imagePullSecrets"), {})


def secret(draw: Draw) -> Pair:
    kind, desired = draw.choice(["kubernetes.io/service-account-token", "Opaque"]), {"token": "YQ=="}
    annotations = {"metadata": {"annotations": {"kubernetes.io/service-account.name": "a"}}}
    own = {"data": {"token": "Yg==", "ca.crt": "Yw=="}} if kind != "Opaque" else {}
    return Pair({"type": kind, **annotations}, {"type": kind, **annotations, **optional(draw, "data", desired)}, own)


def volume_claim(draw: Draw) -> Pair:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= optional(draw, "storageClassName", "a")
    added = optional(draw, "storageClassName", "b") | optional(draw, "selector", {"matchLabels": {"a": "b"}})
    return Pair({"spec": added | spec}, {"spec": spec}, {"spec": optional(draw, "volumeName", "v")})


def volume(draw: Draw) -> Pair:
    source = {"csi": {"driver": "d", "volumeHandle": "h"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "n", "name": "c", "uid": "u"}
    next_spec = (
        spec
        | optional(draw, "persistentVolumeReclaimPolicy", "Retain")
        | optional(draw, "claimRef", {"namespace": "n", "name": "c"})
    )
    return Pair({"spec": spec}, {"spec": next_spec}, {"spec": optional(draw, "claimRef", claim)})


def any_pod(draw: Draw, policy: str = "Always") -> JSONObject:
    """The spec of a template."""
    spec: JSONObject = {
        "restartPolicy": policy,
        "containers": [container(draw, name) for name in draw.sample("abc", draw.randint(1, 3))],
    }
    if draw.random() < 0.3:
        spec["initContainers"] = [container(draw, "i")]
    spec |= optional(draw, "volumes", [{"name": "v", "emptyDir": {}}], [{"name": "w", "emptyDir": {}}])
    spec |= optional(
        draw, "tolerations", [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    )
    spec |= optional(draw, "nodeSelector", {"a": "b"}) | optional(draw, "serviceAccountName", "own")
    spec |= optional(draw, "securityContext", {"runAsUser": 5}) | optional(draw, "activeDeadlineSeconds", 100)
    return spec


def container(draw: Draw, name: str) -> JSONObject:
    made = {
        "name": name,
        "image": "i:1",
        **optional(draw, "env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    }
    made |= optional(draw, "resources", {"requests": {"cpu": "1"}}) | optional(draw, "ports", [{"containerPort": 80}])
    return made | optional(draw, "envFrom", [{"configMapRef": {"name": "c"}}]) | optional(draw, "args", ["x"])


def inject(draw: Draw, spec: JSONObject) -> JSONObject:
    """Return a Pod's spec as the webhooks and the admission plugins of a member cluster change it."""
    spec = copy.deepcopy(spec)
    for member in ("containers", "initContainers"):
        for one in spec.get(member, []):
            one["env"] = [*optional(draw, "env", [{"name": "B", "value": "2"}]).get("env", []), *one.get("env", [])]
            one["envFrom"] = one.get("envFrom", []) + optional(draw, "e", [{"secretRef": {"name": "s"}}]).get("e", [])
            one.update(optional(draw, "resources", {"limits": {"memory": "1Gi"}}))
            one.update(optional(draw, "imagePullPolicy", "Always"))
            one.update(optional(draw, "securityContext", {"runAsNonRoot": True}))
        injected = container(draw, f"injected-{member.lower()}")
        if draw.random() < 0.5:
            spec.setdefault(member, []).insert(draw.choice([0, len(spec.get(member, []))]), injected)
    spec["volumes"] = [*spec.get("volumes", []), {"name": "injected", "emptyDir": {}}]
    for one in spec["containers"]:
        one.update(optional(draw, "volumeMounts", [{"name": "injected", "mountPath": "/injected"}]))
    spec["tolerations"] = [{"key": "injected", "operator": "Exists"}, *spec.get("tolerations", [])]
    spec |= optional(draw, "schedulerName", "other") | optional(draw, "schedulingGates", [{"name": "example.org/gate"}])
    spec |= optional(draw, "serviceAccountName", "injected")
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "injected": "true"}
    return (
        spec
        | optional(draw, "dnsConfig", {"searches": ["a.example.org"]})
        | optional(draw, "hostAliases", [{"ip": "10.0.0.1", "hostnames": ["h"]}])
    )


def pod(draw: Draw) -> Pair:
    spec = any_pod(draw)
    created = inject(draw, spec)
    spec = copy.deepcopy(spec)
    # The members that kube-apiserver lets change (pkg/apis/core/validation: ValidatePodUpdate).
    for one in (*spec["containers"], *spec.get("initContainers", [])):
        one.update(optional(draw, "image", "i:2"))
    if draw.random() < 0.5:
        spec["activeDeadlineSeconds"] = 50
    spec["tolerations"] = [*spec.get("tolerations", []), {"key": "added", "operator": "Exists"}][: draw.randint(1, 2)]
    labels = {"metadata": {"labels": {"added": "true"}}}
    return Pair({"spec": created}, {"spec": spec, **labels}, {})


def job(draw: Draw) -> Pair:
    spec = {"template": {"metadata": optional(draw, "labels", {"app": "a"}), "spec": any_pod(draw, "Never")}}
    spec |= optional(draw, "completions", 4) | optional(draw, "suspend", True)
    changed_spec = spec | optional(draw, "parallelism", 3) | optional(draw, "backoffLimit", 5)
    return Pair({"spec": spec}, {"spec": changed_spec}, {})


KINDS: Final = {
    "/v1/Service": Kind("services", 400, service, is_accepted=False),
    "/v1/ServiceAccount": Kind("serviceaccounts", 60, service_account),
    "/v1/Secret": Kind("secrets", 20, secret),
    "/v1/PersistentVolumeClaim": Kind("persistentvolumeclaims", 60, volume_claim),
    "/v1/PersistentVolume": Kind("persistentvolumes", 40, volume),
    "/v1/Pod": Kind("pods", 200, pod),
    "batch/v1/Job": Kind("jobs", 60, job),
}


def changed(retained: Any, desired: Any, *path: str | int) -> dict[tuple[str | int, ...], Any]:
    """Return the values in ``retained`` that ``desired`` does not have, by their paths."""
    if isinstance(retained, dict) and isinstance(desired, dict):
        pairs = {name: (value, desired.get(name)) for name, value in retained.items()}
    elif isinstance(retained, list) and isinstance(desired, list) and len(retained) == len(desired):
        pairs = dict(enumerate(zip(retained, desired, strict=True)))
    else:
        return {} if retained == desired else {path: retained}
    return {where: value for name, pair in pairs.items() for where, value in changed(*pair, *path, name).items()}


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for name in path:
        is_there = name < len(document) if isinstance(name, int) else name in (document or {})
        document = document[name] if is_there else None
    return document


def contains(stored: Any, value: Any) -> bool:
    """Return whether the apiserver stored a value; it adds defaults, and a second address of a Service."""
    if isinstance(value, dict):
        return isinstance(stored, dict) and all(contains(stored.get(name), one) for name, one in value.items())
    if isinstance(value, list):
        return isinstance(stored, list) and len(stored) >= len(value) and all(map(contains, stored, value))
    return bool(stored == value)


def as_template(api: Api, path: str, document: JSONObject) -> JSONObject:
    """Return an object as Karmada's control plane stores it, with its own defaults and addresses, and prunes it."""
    name = f"{document['metadata']['name']}-t"
    status, answer, _ = api.call(
        "POST", path, {**document, "metadata": {**document["metadata"], "name": name}}, dryRun="All"
    )
    return {**prune(answer), "metadata": document["metadata"]} if status < 300 else document


def make_observed(api: Api, path: str, document: JSONObject, pair: Pair) -> JSONObject | None:
    """Return the object in the member cluster, None if the apiserver refuses to create it."""
    metadata = {**pair.created.get("metadata", {}), **document["metadata"]}
    status, observed, _ = api.call("POST", path, {**document, **pair.created, "metadata": metadata})
    if status >= 300:
        return None
    if pair.controlled:
        made = {name: {**observed.get(name, {}), **members} for name, members in pair.controlled.items()}
        observed = api.replace(f"{path}/{document['metadata']['name']}", {**observed, **made})
    return dict(observed)


@pytest.mark.parametrize("name", KINDS)
def test_each_retained_object_is_accepted(api: Api, namespace: str, name: str) -> None:
    plural, pairs, generate, is_accepted = KINDS[name]
    kind = kind_of(name)
    retain = NATIVE[kind][Operation.RETAIN]
    base = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    scope = f"{base}/{plural}" if plural == "persistentvolumes" else f"{base}/namespaces/{namespace}/{plural}"
    for account in ("own", "injected", "default") if plural == "pods" else ():
        api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": account}})
    not_created, wrong = 0, list[tuple[Any, ...]]()
    for number in range(pairs):
        draw = random.Random(f"{name} {number}")
        pair = generate(draw)
        document: JSONObject = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": f"{namespace}-{number}"},
        }
        observed = make_observed(api, scope, copy.deepcopy(document), copy.deepcopy(pair))
        if observed is None:
            not_created += 1
            continue
        path = f"{scope}/{document['metadata']['name']}"
        metadata = {**pair.desired.get("metadata", {}), **document["metadata"]}
        desired = {**document, **copy.deepcopy(pair.desired), "metadata": metadata}
        if draw.random() < 0.4:
            desired = as_template(api, scope, desired)
        versioned = {"metadata": {**metadata, "resourceVersion": observed["metadata"]["resourceVersion"]}}
        retained = retain(copy.deepcopy(desired), copy.deepcopy(observed))
        alone, _, _ = api.call("PUT", path, desired | versioned, dryRun="All")
        status, answer, _ = api.call("PUT", path, retained | versioned, dryRun="All")
        values = changed(retained, desired)
        if status >= 300 and (alone < 300 or is_accepted):
            wrong.append(("update", number, answer["message"], observed, desired, values))
        elif status < 300 and (lost := [one for one, value in values.items() if not contains(at(answer, one), value)]):
            wrong.append(("lost", number, lost, observed, desired, answer))
        elif status < 300 and retain(desired, answer) != (again := retain(desired, retain(desired, answer))):
            wrong.append(("unstable", number, observed, desired, again))
        api.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        other = {"metadata": {**metadata, "name": f"{metadata['name']}-other"}}
        alone, _, _ = api.call("POST", scope, desired | other, dryRun="All")
        status, answer, _ = api.call("POST", scope, retained | other, dryRun="All")
        # The labels of a Job contain its own uid.
        if status >= 300 > alone and plural != "jobs":
            wrong.append(("create", number, answer["message"], observed, desired, values))
    assert not wrong, (len(wrong), wrong[:3])
    assert not_created < pairs / 4


@pytest.mark.parametrize(
    "change",
    [{"clusterIP": "None"}, {"clusterIP": "None", "clusterIPs": ["None"]}, {"ipFamilies": ["IPv4"]}],
)
def test_a_service_keeps_its_addresses_and_takes_later_edits(api: Api, namespace: str, change: JSONObject) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    ports = [{"port": 80}]
    created = {"ipFamilyPolicy": "PreferDualStack", "ports": ports}
    observed = api.create(path, {"metadata": {"generateName": "a-"}, "spec": created})
    retain = NATIVE[kind_of("/v1/Service")][Operation.RETAIN]
    for selector in ({}, {"app": "edited"}):
        desired = {"metadata": observed["metadata"], "spec": {**created, **change, "selector": selector}}
        observed = api.replace(f"{path}/{observed['metadata']['name']}", retain(desired, observed))
        assert observed["spec"].get("selector", {}) == selector
    assert observed["spec"]["clusterIP"] not in ("", "None")
    assert len(observed["spec"]["clusterIPs"]) == 2
