"""Subjects become sets of v1beta1, and inputs that tweaks cannot express are reported."""

import re
from pathlib import Path
from typing import Any

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.convert import remarks
from fleethook.engines.overrider.convert.conversion import (
    complete_labels,
    convert,
    find_unconverted_overriders,
    move_removed_keys,
)
from fleethook.engines.overrider.convert.remarks import Remark
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import (
    container,
    entry,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    store_of,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.convert.conversions import (
    EVERY,
    PLACED,
    POOLS,
    SPEC,
    app_set,
    convert_one,
    in_pool,
    make_patch,
    read_documented_codes,
    remark,
    report,
    tweaks_of,
)

KEY = ObjectKey("", YURT_APP_SET, "default", "demo")
DISK = "/spec/template/spec/nodeSelector/disk"


def lose(path: str, after: Any, before: Any = None, code: str = "lost") -> Remark:
    return Remark("error", code, KEY, "entries[0].patches[0]", "kept", ("a",), path, before, after)


def move(*remarks: Remark, **selector: str) -> tuple[dict[str, Any], list[Remark]] | None:
    """Return the template's pod spec after the move, and the remarks."""
    subject = yurt_app_set_v1beta1(template=pod_template(nodeSelector={"disk": "ssd", **selector}))
    made = move_removed_keys(subject, remarks, kind="Deployment")
    if made is None:
        return None
    document, moved = made
    template = document["spec"]["workload"]["workloadTemplate"]["deploymentTemplate"]
    return template["spec"]["template"]["spec"], moved


def test_a_lost_key_leaves_the_template() -> None:
    moved = move(lose(DISK, "ssd"), zone="east")
    assert moved is not None
    assert moved[0]["nodeSelector"] == {"zone": "east"}
    (remark,) = moved[1]
    assert remark[:4] == ("note", "moved", KEY, "entries[0].patches[0]")
    assert (remark.text, remark.pools) == (
        f"{DISK} moves from the template to tweaks, so that patches can remove it", ("a",),
    )  # fmt: skip


def test_an_object_that_becomes_empty_leaves_it_too() -> None:
    moved = move(lose(DISK, "ssd"))
    assert moved is not None
    assert "nodeSelector" not in moved[0]
    assert len(moved[0]["containers"]) == 1


def test_a_key_of_a_list_element_moves() -> None:
    moved = move(lose("/spec/template/spec/containers/0/image", "nginx:1.0"))
    assert moved is not None
    assert moved[0]["containers"] == [{"name": "nginx"}]


def test_other_differences_move_nothing() -> None:
    others = [
        lose(DISK, "hdd"),
        lose(DISK, "ssd", before="hdd"),
        lose(DISK, "ssd", code="elsewhere"),
        lose("/spec/template/spec/nodeSelector/zone", "east"),
        lose("/spec/template/spec/containers/7", "x"),
        lose("", {}),
    ]
    assert move(*others) is None


OWN = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [container()]}}


def labels_of(subject: dict[str, Any]) -> Any:
    template = subject["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]
    return template.get("metadata", {}).get("labels")


def test_pods_with_all_labels_stay_as_they_are() -> None:
    subject = yurt_app_set()
    completed, remarks = complete_labels(KEY, subject, kind="Deployment")
    assert completed is subject
    assert remarks == []


def test_pods_get_each_missing_label_with_a_remark() -> None:
    subject = yurt_app_set(template=OWN)
    subject["spec"]["selector"]["matchLabels"] = {"app": "demo", "tier": "edge", "own": "2"}
    completed, remarks = complete_labels(KEY, subject, kind="Deployment")
    assert labels_of(completed) == {"own": "1", "app": "demo", "tier": "edge"}
    assert labels_of(subject) == {"own": "1"}
    assert [(one.level, one.code, one.path.rpartition("/")[2]) for one in remarks] == [
        ("warning", "label-added", "app"),
        ("warning", "label-added", "tier"),
    ]
    assert remarks[1].text == "the pods get the label tier=edge of the selector, which kube-apiserver requires"


def test_the_selector_of_a_daemons_template_comes_before_that_of_the_daemon() -> None:
    daemon = yurt_app_daemon(template=OWN, selector={"matchLabels": {"of": "template"}})
    key = ObjectKey("", YURT_APP_DAEMON, "default", "agent")
    assert labels_of(complete_labels(key, daemon, kind="Deployment")[0]) == {"own": "1", "of": "template"}
    without = yurt_app_daemon(template=OWN, selector=None)
    assert labels_of(complete_labels(key, without, kind="Deployment")[0]) == {"own": "1", "app": "demo"}


def test_expressions_of_the_selector_are_dropped_with_a_warning() -> None:
    subject = yurt_app_set()
    subject["spec"]["selector"]["matchExpressions"] = [{"key": "a", "operator": "Exists"}]
    completed, (remark,) = complete_labels(KEY, subject, kind="Deployment")
    assert completed is subject
    assert remark[:4] == ("warning", "selector", KEY, "spec.selector.matchExpressions")


def test_a_set_keeps_template_pools_and_history() -> None:
    subject = app_set()
    subject["spec"]["revisionHistoryLimit"] = 3
    made = convert_one(subject)
    assert made.document == {
        "apiVersion": "apps.openyurt.io/v1beta1",
        "kind": "YurtAppSet",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "pools": ["hangzhou", "beijing"],
            "revisionHistoryLimit": 3,
            "workload": {
                "workloadTemplate": {
                    "deploymentTemplate": {
                        "metadata": {"labels": {"app": "demo"}},
                        "spec": {
                            "selector": {"matchLabels": {"app": "demo"}},
                            "revisionHistoryLimit": 3,
                            "template": pod_template(),
                        },
                    }
                },
                "workloadTweaks": [{**EVERY, "tweaks": {"replicas": 2}}],
            },
        },
    }
    assert report(made) == []


def test_a_daemon_becomes_a_selector_of_node_pools() -> None:
    tainted = node_pool("hangzhou", {"region": "east"}, taints=[{"key": "edge", "effect": "NoSchedule"}])
    made = convert_one(yurt_app_daemon("demo"), pools=(tainted, node_pool("suzhou", {"region": "east"})))
    assert made.document is not None
    assert made.document["kind"] == "YurtAppSet"
    assert made.document["spec"]["nodepoolSelector"] == {"matchLabels": {"region": "east"}}
    assert "pools" not in made.document["spec"]
    tolerate = make_patch("add", f"{SPEC}/tolerations", [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}])
    assert made.document["spec"]["workload"]["workloadTweaks"] == [
        {"pools": ["hangzhou"], "tweaks": {"patches": [tolerate]}}
    ]
    assert report(made) == [("warning", "taints", "spec.nodepoolSelector", ("hangzhou",), "")]


def test_a_pool_without_a_node_pool_is_a_loss() -> None:
    made = convert_one(app_set(), pools=POOLS[:1])
    assert made.document is not None
    assert made.document["spec"]["pools"] == ["hangzhou", "beijing"]
    assert report(made) == [("error", "no-node-pool", "spec.topology.pools[1]", ("beijing",), "")]


def test_pods_that_may_run_anywhere_are_confined() -> None:
    made = convert_one(app_set(pools=[PLACED[0], pool("beijing")]))
    path = f"{SPEC}/nodeSelector/apps.openyurt.io~1nodepool"
    assert report(made) == [("warning", "confined", "spec.topology.pools[1]", ("beijing",), path)]


def test_a_pool_of_another_node_pool_is_a_loss() -> None:
    made = convert_one(app_set(pools=[PLACED[0], pool("beijing", **in_pool("suzhou"))]))
    path = f"{SPEC}/nodeSelector/apps.openyurt.io~1nodepool"
    assert report(made) == [("error", "elsewhere", "spec.topology.pools[1]", ("beijing",), path)]


def test_a_text_that_upstream_takes_for_a_token_is_a_loss() -> None:
    value = [{"name": "A", "value": "{{nodepool-name}}"}]
    made = convert_one(
        app_set(), overrider(entry("beijing", patches=[patch("add", f"{SPEC}/containers/0/env", value)]))
    )
    lost = remark(made, "lost")
    assert (lost.level, lost.field, lost.pools) == ("error", "entries[0].patches[0]", ("beijing",))
    assert (lost.path, lost.before, lost.after) == (
        f"{SPEC}/containers/0/env/0/value", "{{nodepool-name}}", "beijing",
    )  # fmt: skip


def test_a_member_that_upstream_does_not_know_is_a_loss() -> None:
    made = convert_one(app_set(), overrider(entry("beijing", patches=[patch("add", f"{SPEC}/newMember", "x")])))
    lost = remark(made, "lost")
    assert (lost.field, lost.pools, lost.path) == ("entries[0].patches[0]", ("beijing",), f"{SPEC}/newMember")
    assert "is lost" in lost.text


def test_an_entry_that_does_not_fit_is_a_loss_in_its_pools() -> None:
    rule = overrider(entry("beijing", patches=[patch("replace", f"{SPEC}/containers/7/image", "x")]))
    made = convert_one(app_set(), rule)
    assert tweaks_of(made) == []
    assert report(made) == [("error", "not-rendered", "entries[0].patches[0]", ("beijing",), "")]


def test_a_missing_template_is_not_converted() -> None:
    subject = app_set()
    subject["spec"]["workloadTemplate"] = {}
    made = convert_one(subject)
    assert made.document is None
    assert report(made) == [("error", "not-converted", "spec.workloadTemplate", (), "")]


def test_two_templates_are_not_converted() -> None:
    subject = app_set()
    templates = subject["spec"]["workloadTemplate"]
    templates["statefulSetTemplate"] = templates["deploymentTemplate"]
    made = convert_one(subject)
    assert made.document is None
    assert "v1beta1 takes one template" in remark(made, "not-converted").text


def test_an_overrider_with_mistakes_is_not_converted() -> None:
    made = convert_one(app_set(), overrider({"pools": "*", "items": [{"replicas": -1}]}))
    assert made.document is None
    assert {one.code for one in made.remarks} == {"not-converted"}
    assert {one.key.group_kind.kind for one in made.remarks} == {"YurtAppOverrider"}


def test_of_two_overriders_the_one_in_effect_is_converted() -> None:
    first = overrider(entry("*", items=[{"replicas": 5}]), name="first", creationTimestamp="2026-01-01T00:00:00Z")
    second = overrider(entry("*", items=[{"replicas": 6}]), name="second", creationTimestamp="2026-01-02T00:00:00Z")
    made = convert_one(app_set(), second, first)
    assert tweaks_of(made) == [{**EVERY, "tweaks": {"replicas": 5}}]
    assert [(one.level, one.code, one.key.name) for one in made.remarks] == [("warning", "not-in-effect", "second")]


def test_a_daemon_of_the_name_of_a_set_is_reported() -> None:
    made = convert_one(yurt_app_daemon("demo"), app_set())
    assert ("error", "name-taken", "metadata.name", (), "") in report(made)


def test_entries_of_a_daemon_need_node_pools() -> None:
    rule = overrider(entry("*", items=[{"replicas": 5}]), subject={"kind": "YurtAppDaemon", "name": "demo"})
    made = convert_one(yurt_app_daemon("demo"), rule, pools=())
    assert [(one.level, one.code) for one in made.remarks if one.level == "error"] == [("error", "no-node-pools")]


def test_an_overrider_without_its_subject_is_reported() -> None:
    rule = overrider(entry("*", items=[{"replicas": 5}]))
    assert [(one.level, one.code, one.field) for one in find_unconverted_overriders([rule], store_of(rule))] == [
        ("error", "not-converted", "subject")
    ]


def test_an_overrider_of_a_converted_set_is_kept() -> None:
    subject, rule = app_set(), overrider(entry("*", items=[{"replicas": 5}]))
    document = convert_one(subject).document
    assert document is not None
    store = store_of(document, rule)
    assert list(convert([document, rule], store)) == []
    assert [(one.level, one.code) for one in find_unconverted_overriders([rule], store)] == [("note", "kept")]


def test_the_documentation_lists_every_code_with_its_levels() -> None:
    sources = "".join(one.read_text(encoding="utf-8") for one in Path(remarks.__file__).parent.glob("*.py"))
    used = {
        (level, code)
        for level, code in re.findall(r'"(error|warning|note)", "([a-z-]+)"', sources)
        if code != "warning"
    }
    assert {(level, code) for code, levels in read_documented_codes().items() for level in levels} >= used
