"""Rendering: members that survive, repeated renders, and undo."""

from typing import Any

import pytest

from fleethook.engines.overrider.commands.workload_restoration import Restorer
from fleethook.patch import apply
from tests.builders import (
    API_V1BETA1,
    NEW_IMAGE,
    container,
    entry,
    image,
    is_unchanged,
    node_pool,
    overrider,
    owner,
    patch,
    pod_spec,
    pod_template,
    rendered,
    review,
    tweak,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.e2e.openyurt_v1beta1 import V1Beta1


def test_a_workload_kind_the_subject_has_no_template_for_is_a_warning() -> None:
    answer = review(workload("StatefulSet"), yurt_app_set(), NEW_IMAGE)
    assert is_unchanged(answer)
    assert "has no spec.workloadTemplate.statefulSetTemplate" in answer.warnings[0]


APP = "/spec/template/spec/containers/[name=nginx]"
FORMER = {
    "containers": [
        container(args=["--one"], env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        container("side", "busybox:1"),
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
CHANGED = {"containers": [container(image="nginx:1.9", args=["--two"]), container("new", "new:1")]}
ON_FORMER = {
    "image and replicas": entry("*", items=[image("nginx", "nginx:2.0"), {"replicas": 5}]),
    "replicas as they are": entry("*", items=[{"replicas": 2}]),
    "a variable": entry("*", patches=[patch("add", f"{APP}/env/[name=A]", {"value": "3"})]),
    "an added container": entry("*", patches=[patch("add", "/spec/template/spec/containers/-", container("x", "x:1"))]),
    "removed variables": entry("*", patches=[patch("remove", f"{APP}/env")]),
    "other arguments": entry("*", patches=[patch("replace", f"{APP}/args", ["--mine"])]),
    "another volume source": entry(
        "*", patches=[patch("replace", "/spec/template/spec/volumes/[name=data]", {"name": "data", "hostPath": {"path": "/d"}})]
    ),
    "members of the spec": entry("*", patches=[patch("add", "/spec/minReadySeconds", 7), patch("add", "/spec/paused", True)]),
}  # fmt: skip


@pytest.mark.parametrize("rule", ON_FORMER.values(), ids=ON_FORMER)
@pytest.mark.parametrize("first", ["v1beta1", "v1beta2"], ids=["rendered by 1.6", "rendered by 1.7"])
def test_a_workload_that_no_controller_manages_keeps_its_template(rule: Any, first: str) -> None:
    """OpenYurt 1.7, which serves NodePools as v1beta2, has no controller for YurtAppDaemons."""

    def pool_of(version: str) -> dict[str, Any]:
        return {**node_pool("hangzhou", {"region": "east"}), "apiVersion": f"apps.openyurt.io/{version}"}

    def write(living: Any, *objects: Any) -> dict[str, Any]:
        return rendered(living, *objects, operation="UPDATE", old=living)

    former, changed = (
        yurt_app_daemon(template=pod_template(**one), replicas=replicas)
        for one, replicas in ((FORMER, 2), (CHANGED, 3))
    )
    agent = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "agent"}
    override, pool = overrider(rule, subject=agent), pool_of("v1beta2")
    made = workload(owners=[owner("YurtAppDaemon", "agent")])
    made["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"] = "hangzhou"
    pod_spec(made).update(FORMER, nodeSelector={"apps.openyurt.io/nodepool": "hangzhou"})
    managed = write(made, former, override, pool_of("v1beta1"))
    living = write(managed if first == "v1beta1" else made, former, override, pool)
    assert living["spec"] == managed["spec"]
    kept = write(living, changed, override, pool)
    assert kept["spec"] == living["spec"]
    assert write(kept, changed, override, pool) == kept
    assert write(kept, changed, pool) == made
    assert apply(kept, Restorer([changed, pool]).plan(kept).operations) == made


ENV = "/spec/template/spec/containers/0/env"
GOLD = {"matchLabels": {"tier": "gold"}}
LABELLED = {
    "image": [tweak(selector=GOLD, containerImages=[{"name": "nginx", "targetImage": "nginx:gold"}])],
    "replicas": [tweak(selector=GOLD, replicas=4)],
    "an added variable": [tweak(selector=GOLD, patches=[patch("add", f"{ENV}/-", {"name": "B", "value": "2"})])],
    "a removed list": [tweak(selector=GOLD, patches=[patch("replace", ENV, None)])],
    "image and replicas": [
        tweak(selector=GOLD, containerImages=[{"name": "nginx", "targetImage": "nginx:gold"}], replicas=4)
    ],
    "of two": [
        tweak(selector={"matchLabels": {"tier": "iron"}}, containerImages=[{"name": "nginx", "targetImage": "nginx:iron"}]),
        tweak(selector=GOLD, containerImages=[{"name": "nginx", "targetImage": "nginx:gold"}], replicas=4),
        tweak("hangzhou", patches=[patch("add", "/spec/template/spec/hostNetwork", True)]),
    ],
}  # fmt: skip
WRITTEN = V1Beta1()


@pytest.mark.parametrize("tweaks", LABELLED.values(), ids=LABELLED)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("is_rendered", [True, False], ids=["rendered before", "rendered after"])
@pytest.mark.parametrize(("former", "now"), [("iron", "gold"), ("gold", "iron"), ("gold", "none"), ("none", "gold")])
def test_tweaks_stay_until_the_next_revision_if_labels_change(
    tweaks: Any, kind: str, is_rendered: bool, former: str, now: str
) -> None:
    """OpenYurt writes tweaks with each revision only (tests/conformance/openyurt/controllers.yaml)."""
    pods = pod_template(containers=[container(env=[{"name": "A", "value": "1"}])])
    subject, edited = (
        yurt_app_set_v1beta1(tweaks=tweaks, kind=kind, template=pods, replicas=2, revisionHistoryLimit=limit)
        for limit in (5, 6)
    )
    pools = {tier: {**node_pool("hangzhou", {"tier": tier}), "apiVersion": API_V1BETA1} for tier in (former, now)}

    def write(living: Any, *objects: Any) -> dict[str, Any]:
        return rendered(living, *objects, operation="UPDATE", old=living)

    def apply_revision(of: Any, living: Any, tier: str) -> dict[str, Any]:
        made = WRITTEN.apply(of, "hangzhou", living, node_pools={"hangzhou": pools[tier]})
        return {**made, "metadata": {"name": "demo-hangzhou-x", **made["metadata"]}}

    def override(seconds: int) -> dict[str, Any]:
        return overrider(entry("*", patches=[patch("add", "/spec/minReadySeconds", seconds)]))

    made = apply_revision(subject, None, former)
    living = write(made, subject, override(7), pools[former]) if is_rendered else made
    assert write(living, subject, override(7), pools[now])["spec"] == {**made["spec"], "minReadySeconds": 7}
    changed = write(living, subject, override(8), pools[now])
    assert changed["spec"] == {**made["spec"], "minReadySeconds": 8}
    assert write(changed, subject, pools[now]) == made
    written = apply_revision(edited, changed, now)
    revised = rendered(written, edited, override(8), pools[now], operation="UPDATE", old=changed)
    assert revised["spec"] == {**apply_revision(edited, made, now)["spec"], "minReadySeconds": 8}
