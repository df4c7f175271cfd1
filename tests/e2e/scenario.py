"""A YurtAppSet, its controller, an overrider, and the resulting workloads."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.builders import container, entry, image, node_pool, overrider, workload, yurt_app_set, yurt_app_set_v1beta1
from tests.e2e.cluster import Api
from tests.e2e.conftest import new_namespace
from tests.e2e.fleet import OPENYURT
from tests.e2e.keep_alive import keep_alive
from tests.e2e.openyurt import KINDS, V1_4, Form, Release, V1Alpha1
from tests.e2e.openyurt_controller import YurtAppSetController, run_yurt_app_set_controller
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.rollouts import Rollouts, follow_rollouts
from tests.e2e.workloads import APPS
from tests.waiting import wait_for

JSONObject = dict[str, Any]
Change = Callable[[JSONObject], None]
"""Changes a workload in place, as the tested override should."""

BEIJING, HANGZHOU, SHANGHAI = POOLS = ("beijing", "hangzhou", "shanghai")
SENTINEL = "sentinel"


def build_pool(name: str, replicas: int = 1, **fields: Any) -> JSONObject:
    """Return a pool with the expression that selects its nodes, as users write it."""
    expression = {"key": "apps.openyurt.io/nodepool", "operator": "In", "values": [name]}
    return {"name": name, "replicas": replicas, "nodeSelectorTerm": {"matchExpressions": [expression]}, **fields}


def subject_of(name: str, namespace: str, pods: JSONObject, *pools: str) -> JSONObject:
    made = yurt_app_set(name, pools=[build_pool(one) for one in pools])
    made["metadata"] = {"name": name, "namespace": namespace}
    made["spec"]["selector"]["matchLabels"] = labels = {"app": name}
    # ReplicaSets that are not used any more are counted, too.
    made["spec"]["revisionHistoryLimit"] = 100
    template = made["spec"]["workloadTemplate"]["deploymentTemplate"]
    template["metadata"]["labels"] = labels
    template["spec"]["template"] = {"metadata": {"labels": labels}, "spec": pods}
    return made


def subject_v1beta1_of(
    name: str,
    namespace: str,
    pods: JSONObject,
    *pools: str,
    kind: str = "Deployment",
    selector: JSONObject | None = None,
    tweaks: Sequence[JSONObject] = (),
) -> JSONObject:
    labels = {"app": name}
    # ReplicaSets that are not used any more are counted, too.
    spec = {"selector": {"matchLabels": labels}, "revisionHistoryLimit": 100, "replicas": 1}
    spec |= {"serviceName": name} if kind == "StatefulSet" else {}
    spec["template"] = {"metadata": {"labels": labels}, "spec": pods}
    made = yurt_app_set_v1beta1(name, pools, tweaks, kind, selector)
    made["metadata"] = {"name": name, "namespace": namespace}
    (template,) = made["spec"]["workload"]["workloadTemplate"].values()
    template |= {"metadata": {"labels": labels}, "spec": spec}
    return made


def with_image(claim: str) -> Change:
    def change(workload: JSONObject) -> None:
        workload["spec"]["template"]["spec"]["containers"][0]["image"] = claim

    return change


class Scenario:
    """One namespace with a YurtAppSet ``demo``, and a second one, the sentinel, to see which changes fleethook has handled."""

    def __init__(
        self, api: Api, namespace: str, controller: YurtAppSetController, rollouts: Rollouts, form: Form | None = None
    ) -> None:
        self.api, self.namespace, self.controller, self.rollouts = api, namespace, controller, rollouts
        self.form: Form = form or V1Alpha1()
        self._sentinel = 0
        # Deployments, unless a test creates its subject with another kind of workload.
        self._plurals: dict[str, str] = {}

    # Actions of a user.

    def create(self, *pools: str, name: str = "demo", given: JSONObject | None = None, **fields: Any) -> None:
        """Create a subject whose template has one container; ``given`` is for `subject_v1beta1_of`."""
        given = given or {}
        if "kind" in given:
            self._plurals[name] = f"{given['kind'].lower()}s"
        chosen = pools or (() if "selector" in given else POOLS)
        made = self.subject(name, {"containers": [container(**fields)]}, *chosen, **given)
        self.api.create(self.form.path(self.namespace), made)

    def subject(self, name: str, pods: JSONObject, *pools: str, **given: Any) -> JSONObject:
        """Return a subject of the version, with a template of these pods."""
        if isinstance(self.form, V1Beta1):
            return subject_v1beta1_of(name, self.namespace, pods, *pools, **given)
        return subject_of(name, self.namespace, pods, *pools)

    def _workloads_path(self, name: str) -> str:
        return f"{APPS}/namespaces/{self.namespace}/{self._plurals.get(name, 'deployments')}"

    def subject_path(self, name: str = "demo") -> str:
        return f"{self.form.path(self.namespace)}/{name}"

    def edit_container(self, name: str = "demo", **fields: Any) -> None:
        """Replace the template's container; members that are not given disappear."""
        spec = {"template": {"spec": {"containers": [container(**fields)]}}}
        member = KINDS["StatefulSet" if self._plurals.get(name) == "statefulsets" else "Deployment"]
        self.api.merge(self.subject_path(name), self.form.edit({member: {"spec": spec}}))

    def tweak(self, *tweaks: JSONObject, name: str = "demo") -> None:
        """Replace the tweaks of a YurtAppSet v1beta1."""
        self.api.merge(self.subject_path(name), {"spec": {"workload": {"workloadTweaks": list(tweaks)}}})

    def overrider_path(self, name: str = "demo") -> str:
        return f"{OPENYURT}/namespaces/{self.namespace}/yurtappoverriders/{name}"

    def override(self, *entries: JSONObject, name: str = "demo", version: str = "") -> None:
        subject = {"apiVersion": version or self.form.version, "kind": "YurtAppSet", "name": name}
        rule = overrider(*entries, name=name, subject=subject)
        rule["metadata"]["namespace"] = self.namespace
        self.api.apply(self.overrider_path(name), rule)
        if self.api.call("GET", self.subject_path(name))[0] == 404:
            wait_for(lambda: self._is_sent(name), what="the apiserver sends workloads of the subject")

    def _is_sent(self, name: str) -> bool:
        """Return whether the apiserver sends workloads of a subject that does not exist yet to fleethook.

        It learns of a changed webhook configuration by a watch. A workload that is created before is rendered once
        more when the controller finds it, and these tests count that.
        """
        owner = {"apiVersion": self.form.version, "kind": "YurtAppSet", "name": name, "uid": "0", "controller": True}
        made = workload(owners=[owner])
        made["metadata"] |= {"namespace": self.namespace, "name": f"probe-{name}"}
        code, _, warnings = self.api.call("POST", self._workloads_path(""), made, dryRun="All")
        return code >= 400 or any("is not known" in warning for warning in warnings)

    def stop_overriding(self, name: str = "demo") -> None:
        self.api.delete(self.overrider_path(name))

    def remove(self, name: str) -> None:
        """Delete a subject with everything that belongs to it."""
        paths = [f"{self._workloads_path(name)}/{one['metadata']['name']}" for one in self.workloads(name).values()]
        for path in (self.overrider_path(name), self.subject_path(name), *paths):
            self.api.call("DELETE", path)

    # Observations.

    def status(self, name: str = "demo") -> JSONObject:
        return dict(self.api[self.overrider_path(name)].get("status") or {})

    def rendered(self, name: str = "demo") -> bool:
        """Return whether the status of the current overrider reports that every workload is rendered."""
        stored = self.api[self.overrider_path(name)]
        status = stored.get("status") or {}
        conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
        observed = status.get("observedGeneration") == stored["metadata"]["generation"]
        return observed and conditions.get("Rendered") == "True"

    def workloads(self, name: str = "demo") -> dict[str, JSONObject]:
        items = self.api[self._workloads_path(name)]["items"]
        return {
            item["metadata"]["labels"]["apps.openyurt.io/pool-name"]: item
            for item in items
            if any(owner["name"] == name for owner in item["metadata"].get("ownerReferences", []))
        }

    def workload_path(self, pool: str, name: str = "demo") -> str:
        return f"{self._workloads_path(name)}/{self.workloads(name)[pool]['metadata']['name']}"

    def expected(self, pool: str, *changes: Change, name: str = "demo") -> JSONObject:
        """Return the spec that OpenYurt writes without fleethook, after changes, as the apiserver stores it."""
        node_pools = read_node_pools(self.api, self.form)
        made = self.form.apply(self.api[self.subject_path(name)], pool, node_pools=node_pools)
        for change in changes:
            change(made)
        # Without an owner no controller handles it, and a dry run stores nothing.
        del made["metadata"]["ownerReferences"]
        answer = self.api.create(self._workloads_path(name), made, dryRun="All")
        spec: JSONObject = answer["spec"]
        return spec

    def wait_for_specs(self, specs: dict[str, JSONObject], *, name: str = "demo") -> None:
        """Wait until every pool's workload has exactly the spec."""
        try:
            wait_for(lambda: self._specs(name) == specs)
        except AssertionError:
            found = self._specs(name)
            assert found == specs, describe(found, specs)
        wait_for(lambda: self.controller.has_settled(name), what="OpenYurt's controller has nothing to do")

    def _specs(self, name: str) -> dict[str, JSONObject]:
        return {pool: workload["spec"] for pool, workload in self.workloads(name).items()}

    def start_sentinel(self) -> None:
        self.override(entry("*", items=[image("nginx", "sentinel:0")]), name=SENTINEL)
        self.create(BEIJING, name=SENTINEL)
        self.handle_sentinel()

    def handle_sentinel(self) -> float:
        """Edit the sentinel's overrider and wait until fleethook has handled that; return how many seconds it took."""
        self._sentinel += 1
        started = time.monotonic()
        claim = f"sentinel:{self._sentinel}"
        self.override(entry("*", items=[image("nginx", claim)]), name=SENTINEL)
        wait_for(lambda: self._sentinel_image() == claim, what="fleethook handles another subject")
        wait_for(lambda: self.rendered(SENTINEL), what="fleethook writes the status of another subject")
        return time.monotonic() - started

    def _sentinel_image(self) -> str:
        workload = self.workloads(SENTINEL).get(BEIJING)
        if workload is None:
            return ""
        return str(workload["spec"]["template"]["spec"]["containers"][0]["image"])

    def settle(self, *overriders: str) -> None:
        """Wait until the overriders are rendered, fleethook is idle, and the Deployment controller has followed."""
        for name in overriders:
            wait_for(lambda name=name: self.rendered(name), what=f"{name} is rendered: {self.status(name)}")
        self.handle_sentinel()
        self.handle_sentinel()
        wait_for(self.rollouts.has_followed, what="the Deployment controller has observed all Deployments")

    def counts(self, name: str = "demo") -> dict[str, tuple[int, int]]:
        """Return, by pool, the number of successive pod templates and of ReplicaSets."""
        sets = self.rollouts.replica_sets(name)
        return {pool: (len(self.rollouts.templates(name, pool)), sets.get(pool, 0)) for pool in self.workloads(name)}


def describe(found: Any, wanted: Any, path: str = "") -> str:
    """Return the JSON pointers at which two documents differ, with both values."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        parts = [
            describe(found.get(key, "-absent-"), wanted.get(key, "-absent-"), f"{path}/{key}")
            for key in sorted(found.keys() | wanted.keys())
        ]
        return "\n".join(part for part in parts if part)
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        parts = [describe(*pair, f"{path}/{number}") for number, pair in enumerate(zip(found, wanted, strict=True))]
        return "\n".join(part for part in parts if part)
    return "" if found == wanted else f"{path}: found {json.dumps(found)}, expected {json.dumps(wanted)}"


def read_node_pools(api: Api, form: Form) -> dict[str, JSONObject]:
    """Return the NodePools of the cluster by name; none for a form that does not depend on them."""
    items = api[form.node_pools_path]["items"] if form.node_pools_path else []
    return {one["metadata"]["name"]: one for one in items}


def apply_node_pools(api: Api, form: Form, **labels: JSONObject) -> None:
    """Create the NodePools with these names and labels."""
    version = form.node_pools_path.removeprefix("/apis/").removesuffix("/nodepools")
    for name, own in labels.items():
        made = node_pool(name, own, type="Edge") | {"apiVersion": version}
        api.apply(f"{form.node_pools_path}/{name}", made)


@contextlib.contextmanager
def scenario(api: Api, *, release: Release = V1_4, form: Form | None = None) -> Iterator[Scenario]:
    """Provide a namespace with OpenYurt's controller, and delete its objects afterwards."""
    form, namespace = form or V1Alpha1(), new_namespace(api)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(keep_alive(api))
        controller = stack.enter_context(run_yurt_app_set_controller(client, namespace, release=release, form=form))
        rollouts = stack.enter_context(follow_rollouts(client, namespace))
        try:
            yield Scenario(client, namespace, controller, rollouts, form)
        finally:
            with controller.paused():
                clear(client, namespace, form)


def clear(api: Api, namespace: str, form: Form) -> None:
    """Delete all objects that fleethook would reconcile."""
    for path in (f"{OPENYURT}/namespaces/{namespace}/yurtappoverriders", form.path(namespace)):
        api.delete(path)
    for plural in ("deployments", "statefulsets", "replicasets"):
        api.delete(f"{APPS}/namespaces/{namespace}/{plural}")
    api.delete(f"/api/v1/namespaces/{namespace}/pods")
