"""Cases written by hand: one for each rule and each oddity of YurtAppSet v1beta1."""

from collections.abc import Iterator
from typing import Any

from patches import CONTAINER, POD, patch_operations
from shapes import (
    GROUP,
    JSONObject,
    container,
    existing,
    node_pools,
    operation,
    pod_template,
    reference,
    subject,
    template,
    tweak,
)

REVISION = "web-66f8c7d9b"
EAST = {"matchLabels": {"region": "east"}}


def case(name: str, of: JSONObject, pool: str = "hangzhou", **members: Any) -> JSONObject:
    """Return a case: by default a new workload for ``pool``, from a subject as a typed client writes it.

    With raw=True the subject stays as its author wrote it: zero values, null, other spellings of quantities.
    """
    return {
        "id": name,
        "subject": of,
        "nodePools": node_pools(),
        "pool": pool,
        "revision": REVISION,
        "existing": None,
        **members,
    }


def every_case() -> Iterator[JSONObject]:
    """Return all cases; each rule for a new Deployment, the general ones for both kinds and for updates."""
    for kind in ("Deployment", "StatefulSet"):
        for made in (*_templates(kind), *_tweaks(kind), *_patches(kind)):
            yield made | {"id": f"{kind.lower()}-{made['id']}"}
            if made["id"].split("-")[0] in {"template", "tweak"}:
                present = existing(
                    kind, made["pool"], ownerReferences=[reference(name=made["subject"]["metadata"]["name"])]
                )
                yield made | {"id": f"{kind.lower()}-update-{made['id']}", "existing": present}
        yield from (made | {"id": f"{kind.lower()}-{made['id']}"} for made in _updates(kind))
    yield from _pools()
    yield from _spellings()


def _rich_pods() -> JSONObject:
    """Return a pod template with the members that tweaks usually change."""
    app = container(
        args=["--one", "--two"],
        env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        ports=[{"containerPort": 80, "name": "http"}],
        resources={"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        volumeMounts=[{"name": "config", "mountPath": "/config"}, {"name": "data", "mountPath": "/data"}],
        livenessProbe={"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5},
    )
    made = pod_template(
        app,
        container("sidecar", command=["sidecar"], env=[{"name": "C", "value": "3"}]),
        initContainers=[container("prepare"), container("app", image="app-init:1")],
        volumes=[
            {"name": "config", "configMap": {"name": "web"}},
            {"name": "data", "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}},
            {"name": "scratch", "emptyDir": {}},
        ],
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "edge", "operator": "Exists"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}]}
                    ]
                }
            }
        },
        terminationGracePeriodSeconds=0,
        securityContext={"runAsUser": 1000, "runAsNonRoot": True},
    )
    made["metadata"]["annotations"] = {"trace": "on"}
    return made


def _rich(kind: str, **spec: Any) -> Any:
    own: JSONObject = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}}
    if kind == "StatefulSet":
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        own = {"updateStrategy": {"type": "OnDelete"}, "volumeClaimTemplates": [claim]}
    metadata = {"labels": {"of": "template", "team": "web"}, "annotations": {"doc": "template"}}
    return template(kind, _rich_pods(), metadata=metadata, **{"replicas": 2, **own, **spec})


def _templates(kind: str) -> Iterator[JSONObject]:
    """Cases without tweaks."""
    made = {
        "small": template(kind),
        "rich": _rich(kind),
        "no-replicas": _rich(kind, replicas=None),
        "replicas-zero": _rich(kind, replicas=0),
        "revision-history-limit": template(kind, revisionHistoryLimit=0, minReadySeconds=7),
        "no-selector": template(kind, selector=None),
        "selector-expressions-only": template(
            kind, selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
        ),
        "selector-both": template(
            kind, selector={"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
        ),
        "own-labels": template(
            kind,
            metadata={
                "name": "ignored",
                "namespace": "elsewhere",
                "finalizers": ["example.com/ignored"],
                "labels": {f"{GROUP}/pool-name": "wrong", f"{GROUP}/ref-yurtappset": "wrong", "of": "template"},
                "annotations": {f"{GROUP}/ref-nodepool": "wrong"},
            },
        ),
        "pod-labels": template(
            kind,
            {
                "metadata": {"labels": {f"{GROUP}/pool-name": "wrong", "app": "web"}},
                "spec": {"containers": [container()]},
            },
            metadata={"labels": {"app": "other", "of": "template"}},
        ),
        "node-selector": template(kind, pod_template(nodeSelector={f"{GROUP}/nodepool": "wrong", "disk": "ssd"})),
        "no-pod-labels": template(kind, {"spec": {"containers": [container()]}}),
    }
    for name, one in made.items():
        yield case(f"template-{name}", subject(kind, one))
    yield case("template-long-name", subject(kind, name="w" * 248))


def _tweaks(kind: str) -> Iterator[JSONObject]:
    """Cases of tweaks.replicas and containerImages, and of the pools that a tweak is for."""
    app, init = {"name": "app", "targetImage": "app:2"}, {"name": "prepare", "targetImage": "prepare:2"}
    selectors = {
        "selector": EAST,
        "selector-other": {"matchLabels": {"region": "north"}},
        "selector-empty": {},
        "selector-in": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["edge", "x"]}]},
        "selector-not-in": {"matchExpressions": [{"key": "missing", "operator": "NotIn", "values": ["x"]}]},
        "selector-exists": {"matchExpressions": [{"key": "region", "operator": "Exists"}]},
        "selector-does-not-exist": {"matchExpressions": [{"key": "region", "operator": "DoesNotExist"}]},
        "selector-and": {**EAST, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["cloud"]}]},
        "selector-invalid": {"matchExpressions": [{"key": "region", "operator": "Near", "values": ["x"]}]},
    }
    made: dict[str, list[JSONObject]] = {name: [tweak(selector=one, replicas=5)] for name, one in selectors.items()}
    made |= {
        "pools": [tweak(["hangzhou"], replicas=5)],
        "other-pool": [tweak(["beijing"], replicas=5)],
        "pools-or-selector": [tweak(["beijing"], EAST, replicas=5)],
        "pools-and-other-selector": [tweak(["hangzhou"], {"matchLabels": {"region": "west"}}, replicas=5)],
        "for-nothing": [tweak(replicas=5)],
        "star": [tweak(["*"], replicas=5)],
        "replicas-zero": [tweak(["hangzhou"], replicas=0)],
        "last-wins": [
            tweak(["hangzhou"], replicas=5),
            tweak(selector=EAST, replicas=6),
            tweak(["beijing"], replicas=7),
        ],
        "image-app-and-init": [tweak(["hangzhou"], containerImages=[app])],
        "image-init": [tweak(["hangzhou"], containerImages=[init, {"name": "unknown", "targetImage": "x"}])],
        "image-twice": [tweak(["hangzhou"], containerImages=[app, {**app, "targetImage": "app:3"}])],
        "image-nodepool-name": [tweak(["hangzhou"], containerImages=[{**app, "targetImage": "app:{{nodepool-name}}"}])],
        "empty": [tweak(["hangzhou"])],
        "patch-before-items": [
            tweak(["hangzhou"], patches=[operation("replace", f"{CONTAINER}/image", "patched")]),
            tweak(["hangzhou"], containerImages=[app], replicas=4),
        ],
        "patches-in-order": [
            tweak(["hangzhou"], patches=[operation("replace", "/spec/replicas", 3)]),
            tweak(selector=EAST, replicas=9, patches=[operation("replace", "/spec/replicas", 4)]),
        ],
        "one-failing-patch": [
            tweak(["hangzhou"], replicas=9, patches=[operation("replace", f"{CONTAINER}/image", "patched")]),
            tweak(["hangzhou"], patches=[operation("remove", f"{POD}/volumes/9")]),
        ],
        "failing-patch-elsewhere": [
            tweak(["beijing"], patches=[operation("remove", f"{POD}/volumes/9")]),
            tweak(["hangzhou"], replicas=1),
        ],
    }
    for name, tweaks in made.items():
        yield case(f"tweak-{name}", subject(kind, _rich(kind), *tweaks))
    yield case("tweak-unlabelled-pool", subject(kind, None, tweak(selector={}, replicas=5)), "plain")
    yield case("tweak-no-node-pool", subject(kind, None, tweak(["gone"], replicas=5), pools=["gone"]), "gone")


def _patches(kind: str) -> Iterator[JSONObject]:
    for name, operations in patch_operations().items():
        yield case(f"patch-{name}", subject(kind, _rich(kind), tweak(["hangzhou"], patches=operations)))
    if kind == "Deployment":
        recreate = [operation("replace", "/spec/strategy", {"type": "Recreate"})]
        yield case("patch-strategy-merges", subject(kind, _rich(kind), tweak(["hangzhou"], patches=recreate)))
        without = [operation("replace", "/spec/strategy/rollingUpdate", None), *recreate]
        yield case("patch-strategy-null", subject(kind, _rich(kind), tweak(["hangzhou"], patches=without)))
        without = [*recreate, operation("add", "/spec/strategy/rollingUpdate", None)]
        yield case("patch-strategy", subject(kind, _rich(kind), tweak(["hangzhou"], patches=without)))


def _updates(kind: str) -> Iterator[JSONObject]:
    """Cases in which OpenYurt keeps fields and owner references of a present workload."""
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "o-1"}
    made = {
        "unowned": existing(kind, ownerReferences=[]),
        "reference-v1alpha1": existing(kind, ownerReferences=[reference("v1alpha1")]),
        "reference-beside-other": existing(kind, ownerReferences=[foreign, reference(controller=False)]),
        "other-controller": existing(kind, ownerReferences=[foreign | {"controller": True}]),
        "released": existing(kind, labels={"app": "web"}, ownerReferences=[]),
        "no-labels": existing(kind, labels={}, annotations={}),
    }
    patches = [operation("remove", f"{POD}/nodeSelector/disk"), operation("add", "/metadata/labels/team", "tweaked")]
    for name, present in made.items():
        yield case(f"update-{name}", subject(kind, _rich(kind)), existing=present)
    tweaked = subject(kind, _rich(kind), tweak(["hangzhou"], patches=patches, replicas=4))
    yield case("update-patched", tweaked, existing=existing(kind))
    removed = [operation("remove", "/metadata/labels/team"), operation("remove", "/metadata/annotations/note")]
    yield case(
        "update-remove-foreign",
        subject(kind, _rich(kind), tweak(["hangzhou"], patches=removed)),
        existing=existing(kind),
    )


def _pools() -> Iterator[JSONObject]:
    """Cases of the pools of a subject."""
    made = {
        "listed": subject(pools=["hangzhou", "beijing"]),
        "listed-twice": subject(pools=["hangzhou", "hangzhou"]),
        "listed-and-gone": subject(pools=["gone", "hangzhou"]),
        "selector": subject(selector=EAST),
        "selector-empty": subject(selector={}),
        "selector-and-listed": subject(selector=EAST, pools=["beijing", "gone", "hangzhou"]),
        "selector-expressions": subject(
            selector={"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["cloud"]}]}
        ),
        "selector-invalid": subject(
            selector={"matchExpressions": [{"key": "tier", "operator": "Near"}]}, pools=["hangzhou"]
        ),
        "none": subject(pools=[]),
    }
    for name, one in made.items():
        yield case(f"pools-{name}", one)
    without, both = subject(), subject()
    without["spec"]["workload"]["workloadTemplate"] = {}
    both["spec"]["workload"]["workloadTemplate"]["statefulSetTemplate"] = template("StatefulSet")
    yield case("no-template", without)
    yield case("both-templates", both)


def _spellings() -> Iterator[JSONObject]:
    """Cases in which the subject is not spelled as a typed client writes it."""
    app = container(
        env=[{"name": "EMPTY", "value": ""}],
        args=[],
        resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5, "memory": "1e3"}},
        stdin=False,
        securityContext={"privileged": False},
    )
    pods = pod_template(app, hostNetwork=False, volumes=[], nodeSelector={}, tolerations=None, noSuchField=1)
    made = template(
        "Deployment",
        pods,
        metadata={"labels": {}, "annotations": None, "creationTimestamp": None},
        paused=False,
        minReadySeconds=0,
        replicas=0,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "1", "maxUnavailable": 0}},
    )
    yield case("spelling-zero-values", subject("Deployment", made), raw=True)
    yield case("spelling-update", subject("Deployment", made), raw=True, existing=existing())
    patches = [operation("add", f"{CONTAINER}/args/-", "--x"), operation("remove", f"{CONTAINER}/env/0")]
    yield case("spelling-patch-absent", subject("Deployment", made, tweak(["hangzhou"], patches=patches)), raw=True)
    patches = [operation("replace", "/spec/paused", True), operation("remove", "/spec/minReadySeconds")]
    yield case("spelling-patch-omitted", subject("Deployment", made, tweak(["hangzhou"], patches=patches)), raw=True)
