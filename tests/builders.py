"""Small but valid objects for tests."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fleethook.cluster.store import Store, StoreView
from fleethook.engines.overrider.admission import overrider_admission, workload_admission
from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.entries.steps_and_limits import compile_steps
from fleethook.engines.overrider.plan import plan_and_digest
from fleethook.engines.overrider.plan.plan_and_digest import BarePlan, Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.subject.subject_and_pools import SetSelections, is_v1beta1, topology
from fleethook.engines.overrider.template.pool_template_and_placement import PoolSettings
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.patch import apply
from fleethook.server.reviews.admission_endpoint import Immediate

API = "apps.openyurt.io/v1alpha1"
API_V1BETA1 = "apps.openyurt.io/v1beta1"
POOL_LABEL = "apps.openyurt.io/pool-name"
UID = "3f0c2b6e-5d0a-4c9e-9a51-5b8a9b6d8e01"


def container(name: str = "nginx", image: str = "nginx:1.0", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **fields}


def pod_template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [container()], **spec}}


def yurt_app_set(
    name: str = "demo", pools: list[dict[str, Any]] | None = None, kind: str = "Deployment", **spec: Any
) -> dict[str, Any]:
    member = "deploymentTemplate" if kind == "Deployment" else "statefulSetTemplate"
    template = {"metadata": {"labels": {"app": "demo"}}, "spec": {"template": pod_template(), **spec}}
    return {
        "apiVersion": API,
        "kind": "YurtAppSet",
        "metadata": {"name": name, "namespace": "default", "uid": UID},
        "spec": {
            "selector": {"matchLabels": {"app": "demo"}},
            "workloadTemplate": {member: template},
            "topology": {"pools": pools if pools is not None else [pool("hangzhou"), pool("beijing")]},
        },
    }


def pool(name: str, replicas: int | None = 2, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({} if replicas is None else {"replicas": replicas}), **fields}


def yurt_app_daemon(name: str = "agent", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "YurtAppDaemon",
        "metadata": {"name": name, "namespace": "default", "uid": UID},
        "spec": {
            "selector": {"matchLabels": {"app": "demo"}},
            "nodepoolSelector": {"matchLabels": {"region": "east"}},
            "workloadTemplate": {
                "deploymentTemplate": {
                    "metadata": {"labels": {"app": "demo"}},
                    "spec": {"selector": {"matchLabels": {"app": "demo"}}, "template": pod_template(), **spec},
                }
            },
        },
    }


def yurt_app_set_v1beta1(
    name: str = "demo",
    pools: Sequence[str] = ("hangzhou", "beijing"),
    tweaks: Sequence[dict[str, Any]] = (),
    kind: str = "Deployment",
    selector: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    member = "deploymentTemplate" if kind == "Deployment" else "statefulSetTemplate"
    selected = {"selector": {"matchLabels": {"app": "demo"}}, "template": pod_template(), **spec}
    workload = {"workloadTemplate": {member: {"metadata": {"labels": {"app": "demo"}}, "spec": selected}}}
    return {
        "apiVersion": API_V1BETA1,
        "kind": "YurtAppSet",
        "metadata": {"name": name, "namespace": "default", "uid": UID},
        "spec": {
            "workload": {**workload, **({"workloadTweaks": list(tweaks)} if tweaks else {})},
            **({"pools": list(pools)} if pools else {}),
            **({} if selector is None else {"nodepoolSelector": selector}),
        },
    }


def tweak(*pools: str, selector: dict[str, Any] | None = None, **tweaks: Any) -> dict[str, Any]:
    selection = {"pools": list(pools)} if selector is None else {"nodepoolSelector": selector}
    return {**selection, "tweaks": tweaks}


def node_pool(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "NodePool", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def overrider(
    *entries: dict[str, Any], name: str = "demo1", subject: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "YurtAppOverrider",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "subject": subject or {"apiVersion": API, "kind": "YurtAppSet", "name": "demo"},
        "entries": list(entries),
    }


def entry(*pools: str, items: Any = None, patches: Any = None, selector: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {"pools": list(pools)} if pools or selector is None else {}
    if selector is not None:
        made["poolSelector"] = selector
    if items is not None:
        made["items"] = items
    if patches is not None:
        made["patches"] = patches
    return made


def image(name: str, claim: str) -> dict[str, Any]:
    return {"image": {"containerName": name, "imageClaim": claim}}


def patch(operation: str, path: str, *value: Any) -> dict[str, Any]:
    return {"operation": operation, "path": path, **({"value": value[0]} if value else {})}


def owner(kind: str = "YurtAppSet", name: str = "demo", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "name": name, "uid": UID, "controller": True, **fields}


def workload(
    kind: str = "Deployment", pool: str | None = "hangzhou", owners: Any = None, **fields: Any
) -> dict[str, Any]:
    """Return a workload as OpenYurt's controller creates it; `fields` go into its spec."""
    labels = {"app": "demo"} | ({POOL_LABEL: pool} if pool else {})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": f"demo-{pool}-x",
            "namespace": "default",
            "labels": dict(labels),
            "annotations": {"apps.openyurt.io/patch": ""},
            "ownerReferences": [owner()] if owners is None else owners,
        },
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container()]}},
            **fields,
        },
    }


def store_of(*objects: dict[str, Any]) -> Store:
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in objects:
        store.put(document)
    return store


def request(
    document: Any, operation: str = "CREATE", old: Any = None, kind: str | None = None, **fields: Any
) -> AdmissionRequest:
    """Return an admission request, decoded from bytes as in the server."""
    body = {
        "uid": "u-1",
        "operation": operation,
        "kind": {"group": "apps", "version": "v1", "kind": kind or (document or old)["kind"]},
        "namespace": "default",
        "name": ((document or old).get("metadata") or {}).get("name", ""),
        "object": document,
        "oldObject": old,
        **fields,
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=AdmissionRequest)


def decide(ask: Callable[[], Immediate]) -> Response:
    """Ask a handler until it decides, and run its functions in this thread."""
    while True:
        decided = ask()
        found = decided if isinstance(decided, Response) else decided()
        if found is not None:
            return found


def validate_subject(request: AdmissionRequest, *, store: StoreView) -> Response:
    return decide(lambda: overrider_admission.validate_subject(request, store=store))


def validate_overrider(request: AdmissionRequest, *, store: StoreView, warning_share: float = 1.0) -> Response:
    return decide(lambda: overrider_admission.validate_overrider(request, store=store, warning_share=warning_share))


def mutate_workload(request: AdmissionRequest, *, store: StoreView, plans: PlanCache) -> Response:
    return decide(lambda: workload_admission.mutate_workload(request, store=store, plans=plans))


def review(document: Any, *objects: dict[str, Any], **fields: Any) -> Response:
    """Return the answer to the review of a workload with a store of these objects."""
    return mutate_workload(request(document, **fields), store=store_of(*objects), plans=PlanCache())


def rendered(document: Any, *objects: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the workload after the answer's patch; fails if it is denied."""
    answer = review(document, *objects, **fields)
    assert answer.allowed, answer.message
    result: dict[str, Any] = apply(document, answer.patch)
    # The patch must have the same result in an apiserver's dialect and in RFC 6902.
    assert apply(document, answer.patch, dialect="kubernetes") == result
    return result


def pod_spec(document: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = document["spec"]["template"]["spec"]
    return spec


def images(document: dict[str, Any]) -> dict[str, str]:
    spec = pod_spec(document)
    return {c["name"]: c["image"] for c in [*spec["containers"], *spec.get("initContainers", [])]}


NEW_IMAGE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))


def is_unchanged(answer: Response) -> bool:
    """Return whether a review is admitted without a patch."""
    return answer.allowed and not answer.patch


def compile_bare(group_kind: GroupKind, subject: Any, *, kind: str, pool: str, node_pool: Any = None) -> BarePlan:
    """Compile the plan of a pool without entries."""
    tweaks = SetSelections(subject).tweaks(pool, node_pool) if is_v1beta1(subject) else ()
    settings = PoolSettings(topology(subject["spec"]).get(pool), tweaks)
    return plan_and_digest.compile_bare(
        group_kind, subject, kind=kind, pool=pool, node_pool=node_pool, settings=settings
    )


def compile_plan(group_kind: GroupKind, subject: Any, rule: Any, *, kind: str, pool: str, node_pool: Any) -> Plan:
    """Compile the plan of a pool alone, with its name in place of marks."""
    entries = rule["entries"] if rule else None
    bare = compile_bare(group_kind, subject, kind=kind, pool=pool, node_pool=node_pool)
    steps = compile_steps(entries, pool, applying=EntrySelection(entries).applying(pool, node_pool))
    return plan_and_digest.compile_plan(steps, subject, bare=bare, kind=kind, pool=pool)
