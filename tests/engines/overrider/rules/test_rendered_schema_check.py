"""Tests of the check of rendered workloads: the entry that each mistake names."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.rules.rendered_schema_check import MAX_FINDINGS
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import compile_plan, container, entry, image, overrider, patch, pod_template, yurt_app_set


def compile_for(*entries: dict[str, Any], **subject: Any) -> Plan:
    made = yurt_app_set(**subject)
    return compile_plan(YURT_APP_SET, made, overrider(*entries), kind="Deployment", pool="hangzhou", node_pool=None)


def test_an_invalid_result_names_the_steps_of_its_findings() -> None:
    wrong = [patch("add", f"{POD}/containers/0/{name}", "x") for name in ("args", "env", "ports")]
    with pytest.raises(RenderError) as caught:
        compile_for(entry("*", patches=wrong))
    assert caught.value.field == "entries[0].patches[0]"
    assert [f"entries[0].patches[{number}]: " in str(caught.value) for number in (1, 2)] == [True, True]
    many = [patch("add", f"{POD}/containers/0/env", [{"name": f"n{one}", "value": one} for one in range(99)])]
    with pytest.raises(RenderError) as caught:
        compile_for(entry("*", patches=many))
    assert str(caught.value).count(f"{POD}/containers/0/env/") == MAX_FINDINGS


def test_mistakes_of_the_template_alone_are_not_those_of_the_overrider() -> None:
    template = pod_template(containers=[container("nginx", args="x")])
    assert compile_for(entry("*", items=[{"replicas": 3}]), template=template).create.rendered["spec"]["replicas"] == 3


POD = "/spec/template/spec"


APP = container(
    "app",
    ports=[{"name": "http", "containerPort": 80}],
    volumeMounts=[{"name": "data", "mountPath": "/d"}],
    readinessProbe={"httpGet": {"port": "http"}},
)


TEMPLATE = pod_template(containers=[APP, container("side")], volumes=[{"name": "data", "emptyDir": {}}])


TOUCH = entry("*", items=[image("app", "nginx:2"), image("side", "nginx:2")])


REMOVE_VOLUME = patch("remove", f"{POD}/volumes/[name=data]")


OTHER_VOLUME = patch("add", f"{POD}/volumes/-", {"name": "other", "emptyDir": {}})


MOUNT_OTHER = patch("add", f"{POD}/containers/[name=side]/volumeMounts/-", {"name": "other", "mountPath": "/o"})


REMOVE_OTHER = patch("remove", f"{POD}/volumes/[name=other]")


def one(*patches: dict[str, Any]) -> dict[str, Any]:
    return entry("*", patches=list(patches))


def blame(*entries: dict[str, Any], template: Any = TEMPLATE) -> str:
    subject = yurt_app_set(template=template)
    with pytest.raises(RenderError) as raised:
        compile_plan(YURT_APP_SET, subject, overrider(*entries), kind="Deployment", pool="hangzhou", node_pool=None)
    return raised.value.field


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ([one(REMOVE_VOLUME), TOUCH], "entries[0].patches[0]"),
        ([TOUCH, one(OTHER_VOLUME, REMOVE_VOLUME), TOUCH], "entries[1].patches[1]"),
        ([one(REMOVE_VOLUME), one(OTHER_VOLUME), TOUCH], "entries[0].patches[0]"),
        ([one(OTHER_VOLUME), TOUCH, one(MOUNT_OTHER), TOUCH, one(REMOVE_OTHER)], "entries[4].patches[0]"),
        ([one(MOUNT_OTHER), TOUCH], "entries[0].patches[0]"),
        ([one(OTHER_VOLUME), TOUCH, one(OTHER_VOLUME), TOUCH], "entries[2].patches[0]"),
        ([one(patch("add", f"{POD}/containers/[name=side]/ports", [{"name": "Http", "containerPort": 1}])), TOUCH], "entries[0].patches[0]"),
        ([TOUCH, one(patch("remove", f"{POD}/containers/[name=app]/image")), one(OTHER_VOLUME)], "entries[1].patches[0]"),
        ([one(patch("replace", f"{POD}/restartPolicy", "x")), one(patch("add", f"{POD}/restartPolicy", "y"))], "entries[1].patches[0]"),
        ([TOUCH, one(patch("add", "/spec/template/metadata/labels/app", "x"))], "entries[1].patches[0]"),
    ],
)  # fmt: skip
def test_the_entry_whose_change_made_the_workload_invalid_is_named(entries: list[Any], field: str) -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}
    assert blame(*entries, template=template) == field


def test_each_mistake_names_its_own_entry() -> None:
    subject = yurt_app_set(template=TEMPLATE)
    rule = overrider(one(REMOVE_VOLUME), TOUCH, one(OTHER_VOLUME), one(OTHER_VOLUME))
    with pytest.raises(RenderError, match=r"^entries\[0\]\.patches\[0\]: .*; entries\[3\]\.patches\[0\]: "):
        compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)


def test_a_mistake_of_the_template_is_no_mistake_of_an_entry_that_moves_it() -> None:
    wrong = container("app", volumeMounts=[{"name": "none", "mountPath": "/d"}], imagePullPolcy="Always")
    rule = overrider(one(patch("add", f"{POD}/containers/0", container("first"))), TOUCH)
    subject = yurt_app_set(template=pod_template(containers=[wrong, container("side")]))
    plan = compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)
    assert plan.warnings == ()
    assert (
        blame(
            one(patch("add", f"{POD}/containers/[name=app]/volumeMounts/0/name", "nowhere")),
            template=pod_template(containers=[wrong]),
        )
        == "entries[0].patches[0]"
    )
