"""Tweaks on a reviewed workload, and the tweaks that a workload remembers."""

from typing import Any

import pytest

from fleethook.engines.overrider.template.tweaks import decode_tweaks, encode_tweaks, list_selections
from tests.builders import (
    API_V1BETA1,
    container,
    entry,
    node_pool,
    overrider,
    patch,
    pod_template,
    rendered,
    tweak,
    yurt_app_set_v1beta1,
)
from tests.e2e.openyurt_v1beta1 import V1Beta1

EAST = {"matchLabels": {"region": "east"}}


def test_tweaks_are_remembered_for_one_revision_if_labels_select_them() -> None:
    by_label = yurt_app_set_v1beta1(tweaks=[tweak("hangzhou"), tweak(selector=EAST)])
    text = encode_tweaks(by_label, (0, 1))
    assert decode_tweaks(by_label, text) == (0, 1)
    assert decode_tweaks(by_label, encode_tweaks(by_label, ())) == ()
    assert decode_tweaks(yurt_app_set_v1beta1(tweaks=[tweak(selector=EAST)]), text) is None
    assert decode_tweaks({**by_label, "status": {"readyWorkloads": 1}}, text) == (0, 1)
    assert [decode_tweaks(by_label, forged) for forged in ("", ":", "x:0", text + ",7,-1,x")] == [
        None,
        None,
        None,
        (0, 1),
    ]
    assert encode_tweaks(yurt_app_set_v1beta1(tweaks=[tweak("hangzhou")]), (0,)) == ""


def test_other_selections_flip_the_tweaks_that_labels_select() -> None:
    tweaks = [tweak("hangzhou"), *(tweak(selector=EAST, replicas=number) for number in range(2))]
    subject = yurt_app_set_v1beta1(tweaks=tweaks)
    found = [decode_tweaks(subject, text) for text in list_selections(subject, "hangzhou", (0, 1))]
    assert found == [(0,), (0, 1, 2), (0, 2)]


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
