"""Manifests of a fleet of 40 subjects in 30 node pools, with six faults in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tests.builders import API, entry, image, overrider, owner, patch, pool, rendered, workload, yurt_app_set

TIME: Final = "2026-11-25T21:37:00Z"
REGIONS: Final = ("beijing", "hangzhou", "shanghai")
POOLS: Final = [f"{region}-{number:02}" for region in REGIONS for number in range(1, 11)]
SUBJECTS: Final = [
    f"{service}-{part}"
    for service in (
        "cart",
        "catalog",
        "checkout",
        "delivery",
        "gateway",
        "ledger",
        "orders",
        "search",
        "stock",
        "users",
    )
    for part in ("api", "cache", "jobs", "web")
]


class Fault(NamedTuple):
    """A fault of the fleet.

    Attributes:
        about: The object that the overview names.
        shown: A text of the page that explains it.
    """

    about: str
    shown: str


FAULTS: Final = (
    Fault("YurtAppOverrider default/ledger-api", "/spec/template/spec/volumes"),
    Fault("YurtAppOverrider default/orders-web", "ngnix"),
    Fault("ValidatingWebhookConfiguration never-called", "it has no rules"),
    Fault("ValidatingWebhookConfiguration unreadable", "must be bytes in base64"),
    Fault("ResourceInterpreterCustomization broken", "Lua script error"),
    Fault("Karmada default/edge", "the tarball is damaged"),
)
"""One of each engine at least: a path that does not fit, a container that does not exist, a webhook without rules, a CA
that is no certificate, a script with a mistake, and a tarball that is not ready."""

_OTHERS: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: never-called}
webhooks:
- name: never.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://hooks.example.org"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: unreadable}
webhooks:
- name: unreadable.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://hooks.example.org", caBundle: "%%"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
---
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: broken}
spec:
  target: {apiVersion: example.org/v1, kind: Widget}
  customizations: {healthInterpretation: {luaScript: "functio"}}
---
apiVersion: operator.karmada.io/v1alpha1
kind: Karmada
metadata: {name: edge, namespace: default}
status:
  conditions:
  - {type: Ready, status: "False", reason: Failed, message: the tarball is damaged, lastTransitionTime: "2026-11-25T21:37:00Z"}
"""


_RULES: Final = '''
from fleethook.admission import Denied, mutate, validate


@validate("apps/v1", "Deployment", namespace_selector={"matchLabels": {"team": "web"}})
def needs_owner(request):
    """Every Deployment names its owner."""
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")


@mutate("v1", "Pod", on="CREATE")
def default_seccomp(pod):
    """Pods use the seccomp profile of their container runtime."""
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
'''


def write_rules(directory: Path) -> Path:
    """Write a file of two admission rules into a directory, and return it."""
    path = directory / "rules.py"
    path.write_text(_RULES)
    return path


def write_fleet(directory: Path) -> None:
    """Write the manifests of the fleet into a directory."""
    directory.joinpath("fleet.yaml").write_text(yaml.safe_dump_all(_list_objects(), sort_keys=False))
    directory.joinpath("others.yaml").write_text(_OTHERS)


def _list_objects() -> Iterator[dict[str, Any]]:
    pools = [pool(name) for name in POOLS]
    for number, name in enumerate(SUBJECTS):
        subject = yurt_app_set(name, pools=pools)
        of_subject = overrider(
            *_choose_entries(number, name), name=name, subject={"apiVersion": API, "kind": "YurtAppSet", "name": name}
        )
        yield subject
        yield of_subject
        if name == "cart-web":
            running = (workload(pool=one, owners=[owner(name=name)]) for one in POOLS)
            yield from (_add_status(rendered(one, subject, of_subject)) for one in running)


def _add_status(document: dict[str, Any]) -> dict[str, Any]:
    counts = {"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2, "observedGeneration": 1}
    condition = {
        "type": "Progressing",
        "status": "True",
        "message": "ReplicaSet is progressing",
        "lastTransitionTime": TIME,
    }
    owned = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"nginx"}': {"f:image": {}}}}}}}
    manager = {"manager": "kubectl-set", "operation": "Update", "time": TIME, "fieldsV1": owned}
    document["metadata"] |= {"generation": 1, "managedFields": [manager]}
    return {**document, "status": {**counts, "conditions": [condition]}}


def _choose_entries(number: int, name: str) -> list[dict[str, Any]]:
    if name == "ledger-api":
        return [entry("hangzhou-03", patches=[patch("remove", "/spec/template/spec/volumes")])]
    if name == "orders-web":
        return [entry("beijing-07", items=[image("ngnix", "nginx:2")])]
    chosen = POOLS[number % 7 :: 3 + number % 5]
    return [
        entry(*chosen, items=[image("nginx", f"nginx:1.{20 + number % 6}")]),
        entry(
            *POOLS[number % 4 : 9 + number % 13],
            patches=[patch("add", "/spec/template/spec/priorityClassName", f"class-{number % 5}")],
        ),
    ]
