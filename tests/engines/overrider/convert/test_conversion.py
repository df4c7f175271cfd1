"""Subjects and overriders become tweaks, and inputs that tweaks cannot express are reported."""

from typing import Any

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.convert.conversion import (
    Converted,
    complete_labels,
    convert,
    find_unconverted_overriders,
    merge_remarks,
    move_removed_keys,
)
from fleethook.engines.overrider.convert.remarks import CODES, Remark
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import (
    container,
    entry,
    image,
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
from tests.serving import ROOT

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


SET = ObjectKey("", YURT_APP_SET, "default", "demo")
OWN = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [container()]}}


def labels_of(subject: dict[str, Any]) -> Any:
    template = subject["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]
    return template.get("metadata", {}).get("labels")


def test_pods_with_all_labels_stay_as_they_are() -> None:
    subject = yurt_app_set()
    completed, remarks = complete_labels(SET, subject, kind="Deployment")
    assert completed is subject
    assert remarks == []


def test_pods_get_each_missing_label_with_a_remark() -> None:
    subject = yurt_app_set(template=OWN)
    subject["spec"]["selector"]["matchLabels"] = {"app": "demo", "tier": "edge", "own": "2"}
    completed, remarks = complete_labels(SET, subject, kind="Deployment")
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
    completed, (remark,) = complete_labels(SET, subject, kind="Deployment")
    assert completed is subject
    assert remark[:4] == ("warning", "selector", SET, "spec.selector.matchExpressions")


SPEC = "/spec/template/spec"
POOLS = (node_pool("hangzhou", {"region": "east"}), node_pool("beijing"))
EVERY: dict[str, Any] = {"nodepoolSelector": {}}
LABEL = "apps.openyurt.io/nodepool"


def in_pool(name: str, *further: dict[str, Any]) -> dict[str, Any]:
    own = {"key": LABEL, "operator": "In", "values": [name]}
    return {"nodeSelectorTerm": {"matchExpressions": [own, *further]}}


PLACED = [pool("hangzhou", **in_pool("hangzhou")), pool("beijing", **in_pool("beijing"))]


def app_set(*, pools: Any = None, **spec: Any) -> dict[str, Any]:
    return yurt_app_set(pools=PLACED if pools is None else pools, **spec)


def convert_one(subject: dict[str, Any], *objects: dict[str, Any], pools: Any = POOLS) -> Converted:
    (made,) = convert([subject], store_of(subject, *objects, *pools))
    return made


def tweaks_of(made: Converted) -> list[dict[str, Any]]:
    """Return the tweaks without the first one, which sets the replicas of the topology."""
    assert made.document is not None, made.remarks
    first, *others = made.document["spec"]["workload"]["workloadTweaks"]
    assert first == {**EVERY, "tweaks": {"replicas": 2}}
    return others


def report(made: Converted) -> list[tuple[str, str, str, tuple[str, ...], str]]:
    return [(one.level, one.code, one.field, one.pools, one.path) for one in merge_remarks(made.remarks)]


def remark(made: Converted, code: str) -> Remark:
    (found,) = [one for one in merge_remarks(made.remarks) if one.code == code]
    return found


def make_patch(operation: str, path: str, *value: Any) -> dict[str, Any]:
    return patch(operation, path, *value)


# Inputs that are converted without loss.


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


def test_image_and_replicas_of_an_entry_share_a_tweak() -> None:
    made = convert_one(app_set(), overrider(entry("beijing", items=[image("nginx", "nginx:2"), {"replicas": 5}])))
    tweaks = {"replicas": 5, "containerImages": [{"name": "nginx", "targetImage": "nginx:2"}]}
    assert tweaks_of(made) == [{"pools": ["beijing"], "tweaks": tweaks}]
    assert report(made) == []


def test_a_later_entry_stays_later() -> None:
    rule = overrider(entry("*", items=[image("nginx", "a:1")]), entry("beijing", items=[image("nginx", "b:1")]))
    made = convert_one(app_set(), rule)
    assert [tweak["tweaks"]["containerImages"][0]["targetImage"] for tweak in tweaks_of(made)] == ["a:1", "b:1"]
    assert [{**tweak, "tweaks": None} for tweak in tweaks_of(made)] == [
        {**EVERY, "tweaks": None},
        {"pools": ["beijing"], "tweaks": None},
    ]


def test_the_name_of_the_pool_in_a_value_is_upstreams_token() -> None:
    value = [{"name": "REGION", "value": "in-{{nodepool}}"}]
    made = convert_one(app_set(), overrider(entry("*", patches=[patch("add", f"{SPEC}/containers/0/env", value)])))
    changed = make_patch("add", f"{SPEC}/containers/0/env", [{"name": "REGION", "value": "in-{{nodepool-name}}"}])
    assert tweaks_of(made) == [{**EVERY, "tweaks": {"patches": [changed]}}]
    assert report(made) == []


def test_the_name_of_the_pool_in_a_name_is_written_out() -> None:
    """OpenYurt's webhook tries a tweak without a pool, and refuses a volume without a name."""
    volume = {"name": "{{nodepool}}", "emptyDir": {}}
    made = convert_one(app_set(), overrider(entry("*", patches=[patch("add", f"{SPEC}/volumes", [volume])])))
    assert [(tweak["pools"], tweak["tweaks"]["patches"][0]["value"][0]["name"]) for tweak in tweaks_of(made)] == [
        (["hangzhou"], "hangzhou"),
        (["beijing"], "beijing"),
    ]


def test_further_terms_and_tolerations_of_a_pool_become_patches() -> None:
    zone = {"key": "zone", "operator": "Exists"}
    tolerations = [{"key": "edge", "operator": "Exists"}]
    made = convert_one(app_set(pools=[PLACED[0], pool("beijing", **in_pool("beijing", zone), tolerations=tolerations)]))
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    patches = [
        make_patch("add", f"{SPEC}/affinity", {"nodeAffinity": required}),
        make_patch("add", f"{SPEC}/tolerations", tolerations),
    ]
    assert tweaks_of(made) == [{"pools": ["beijing"], "tweaks": {"patches": patches}}]
    assert report(made) == []


def test_pods_get_the_labels_of_their_selector() -> None:
    subject = app_set(template={"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [container()]}})
    made = convert_one(subject)
    assert made.document is not None
    spec = made.document["spec"]["workload"]["workloadTemplate"]["deploymentTemplate"]["spec"]
    assert spec["selector"] == {"matchLabels": {"app": "demo"}}
    assert spec["template"]["metadata"]["labels"] == {"app": "demo", "own": "1"}
    assert report(made) == [
        ("warning", "label-added", "spec.workloadTemplate.deploymentTemplate", (), "/spec/template/metadata/labels/app")
    ]


def test_labels_of_a_stateful_set_stay_off_its_pods() -> None:
    subject = yurt_app_set(pools=PLACED, kind="StatefulSet")
    subject["spec"]["workloadTemplate"]["statefulSetTemplate"]["metadata"]["labels"]["tier"] = "1"
    made = convert_one(subject)
    assert made.document is not None
    template = made.document["spec"]["workload"]["workloadTemplate"]["statefulSetTemplate"]
    assert template["metadata"] == {"labels": {"app": "demo"}}
    (tweak,) = made.document["spec"]["workload"]["workloadTweaks"]
    assert tweak["tweaks"]["patches"][-1] == make_patch("add", "/metadata/labels/tier", "1")
    assert report(made) == []


def test_patches_that_depend_on_each_other_share_a_tweak() -> None:
    """OpenYurt's webhook tries each tweak on the template alone, in which the list of the second patch is missing."""
    rule = overrider(
        entry("*", patches=[patch("add", f"{SPEC}/volumes/-", {"name": "a", "emptyDir": {}})]),
        entry("beijing", patches=[patch("add", f"{SPEC}/volumes/-", {"name": "b", "emptyDir": {}})]),
    )
    made = convert_one(app_set(), rule)
    assert [(tweak["pools"], len(tweak["tweaks"]["patches"])) for tweak in tweaks_of(made)] == [
        (["hangzhou"], 2),
        (["beijing"], 3),
    ]
    assert report(made) == []


def test_a_mount_and_its_volume_share_a_tweak() -> None:
    """OpenYurt's webhook validates the pod of each tweak, and refuses a mount without its volume."""
    subject = app_set(template=pod_template(volumes=[{"name": "own", "emptyDir": {}}]))
    mount = {"name": "logs", "mountPath": "/logs"}
    rule = overrider(
        entry("*", patches=[patch("add", f"{SPEC}/volumes/-", {"name": "logs", "emptyDir": {}})]),
        entry("beijing", patches=[patch("add", f"{SPEC}/containers/0/volumeMounts", [mount])]),
    )
    made = convert_one(subject, rule)
    assert [(tweak["pools"], len(tweak["tweaks"]["patches"])) for tweak in tweaks_of(made)] == [
        (["hangzhou"], 1),
        (["beijing"], 2),
    ]
    assert report(made) == []


def test_patches_of_an_entry_keep_their_order() -> None:
    labels = "/spec/template/metadata/labels"
    patches = [
        patch("add", f"{labels}/x", "1"),
        patch("add", f"{labels}/{{{{nodepool}}}}", "own"),
        patch("add", f"{labels}/hangzhou", "all"),
    ]
    made = convert_one(app_set(), overrider(entry("*", patches=patches)))
    assert [(tweak.get("pools"), tweak["tweaks"]["patches"]) for tweak in tweaks_of(made)] == [
        (None, [make_patch("add", f"{labels}/x", "1")]),
        (["hangzhou"], [make_patch("add", f"{labels}/hangzhou", "own")]),
        (["beijing"], [make_patch("add", f"{labels}/beijing", "own")]),
        (None, [make_patch("add", f"{labels}/hangzhou", "all")]),
    ]


def test_named_elements_of_two_entries_are_appended() -> None:
    """An index would depend on the other entry, and OpenYurt's webhook tries each tweak on the template alone."""
    rule = overrider(
        entry("*", patches=[patch("add", f"{SPEC}/containers/[name=a]", container("a"))]),
        entry("beijing", patches=[patch("add", f"{SPEC}/containers/[name=b]", container("b"))]),
    )
    made = convert_one(app_set(), rule)
    assert [tweak["tweaks"]["patches"] for tweak in tweaks_of(made)] == [
        [make_patch("add", f"{SPEC}/containers/-", container("a"))],
        [make_patch("add", f"{SPEC}/containers/-", container("b"))],
    ]


# Inputs that tweaks express in another way, or cannot express.


def test_an_exclusion_becomes_a_list() -> None:
    made = convert_one(app_set(), overrider(entry("*", "-beijing", items=[{"replicas": 5}])))
    assert tweaks_of(made) == [{"pools": ["hangzhou"], "tweaks": {"replicas": 5}}]
    assert report(made) == [("warning", "listed-pools", "entries[0].pools", (), "")]


def test_a_selector_of_an_entry_becomes_that_of_a_tweak() -> None:
    selector = {"matchLabels": {"region": "east"}}
    made = convert_one(app_set(), overrider(entry(selector=selector, items=[{"replicas": 5}])))
    assert tweaks_of(made) == [{"nodepoolSelector": selector, "tweaks": {"replicas": 5}}]
    assert report(made) == []


def test_a_selector_beside_names_becomes_a_list() -> None:
    rule = overrider(entry("beijing", selector={"matchLabels": {"region": "east"}}, items=[{"replicas": 5}]))
    made = convert_one(app_set(), rule)
    assert tweaks_of(made) == [{**EVERY, "tweaks": {"replicas": 5}}]
    rule = overrider(entry("-hangzhou", selector={"matchExpressions": [ANY]}, items=[{"replicas": 5}]))
    made = convert_one(app_set(), rule)
    assert tweaks_of(made) == [{"pools": ["beijing"], "tweaks": {"replicas": 5}}]
    assert report(made) == [("warning", "listed-pools", "entries[0].poolSelector", (), "")]


ANY = {"key": "region", "operator": "NotIn", "values": ["west"]}


def test_replicas_that_are_left_to_another_owner_are_lost() -> None:
    made = convert_one(app_set(), overrider(entry("*", items=[{"initialReplicas": 5}, {"leave": ["replicas"]}])))
    assert tweaks_of(made) == [{**EVERY, "tweaks": {"replicas": 5}}]
    assert report(made) == [("error", "lost", f"entries[0].items[{number}]", (), "") for number in (0, 1)]


def test_the_name_of_the_pool_in_a_path_makes_a_tweak_for_each_pool() -> None:
    path = "/spec/template/metadata/annotations/{{nodepool}}"
    made = convert_one(app_set(), overrider(entry("*", patches=[patch("add", path, "{{nodepool}}")])))
    assert [(tweak["pools"], tweak["tweaks"]["patches"][-1]) for tweak in tweaks_of(made)] == [
        (["hangzhou"], make_patch("add", path.replace("{{nodepool}}", "hangzhou"), "{{nodepool-name}}")),
        (["beijing"], make_patch("add", path.replace("{{nodepool}}", "beijing"), "{{nodepool-name}}")),
    ]
    assert report(made) == [("warning", "listed-pools", "entries[0].patches[0].path", (), "")]


def test_the_name_of_the_pool_in_an_image_makes_a_tweak_for_each_pool() -> None:
    made = convert_one(app_set(), overrider(entry("*", items=[image("nginx", "r/{{nodepool}}/app:1")])))
    assert [(tweak["pools"], tweak["tweaks"]["containerImages"][0]["targetImage"]) for tweak in tweaks_of(made)] == [
        (["hangzhou"], "r/hangzhou/app:1"),
        (["beijing"], "r/beijing/app:1"),
    ]
    assert report(made) == [("warning", "listed-pools", "entries[0].items[0]", (), "")]


def test_a_removed_member_is_set_to_null_or_zero() -> None:
    subject = app_set(
        template=pod_template(
            containers=[container(workingDir="/w", args=["a"])], terminationGracePeriodSeconds=5, hostNetwork=True
        )
    )
    paths = ["containers/0/workingDir", "containers/0/args", "terminationGracePeriodSeconds", "hostNetwork"]
    made = convert_one(subject, overrider(entry("*", patches=[patch("remove", f"{SPEC}/{path}") for path in paths])))
    (tweak,) = tweaks_of(made)
    assert [one["value"] for one in tweak["tweaks"]["patches"]] == ["", None, None, False]
    assert {one["operation"] for one in tweak["tweaks"]["patches"]} == {"add"}
    assert report(made) == []


def test_a_removed_label_moves_from_the_template_to_tweaks() -> None:
    """OpenYurt's controller keeps the keys of a map that a patch removes, if the template has them."""
    subject = app_set(template=pod_template(nodeSelector={"disk": "ssd"}))
    made = convert_one(subject, overrider(entry("beijing", patches=[patch("remove", f"{SPEC}/nodeSelector/disk")])))
    assert made.document is not None
    template = made.document["spec"]["workload"]["workloadTemplate"]["deploymentTemplate"]
    assert "nodeSelector" not in template["spec"]["template"]["spec"]
    path = f"{SPEC}/nodeSelector/disk"
    assert [make_patch("add", path, "ssd") in tweak["tweaks"]["patches"] for tweak in tweaks_of(made)] == [True, True]
    assert [make_patch("remove", path) in tweak["tweaks"]["patches"] for tweak in tweaks_of(made)] == [False, True]
    assert report(made) == [("note", "moved", "entries[0].patches[0]", ("beijing",), "")]


def test_a_replaced_object_loses_its_other_members() -> None:
    subject = app_set(template=pod_template(volumes=[{"name": "v", "hostPath": {"path": "/a"}}]))
    rule = overrider(entry("*", patches=[patch("replace", f"{SPEC}/volumes/0", {"name": "v", "emptyDir": {}})]))
    made = convert_one(subject, rule)
    (tweak,) = tweaks_of(made)
    assert tweak["tweaks"]["patches"] == [
        make_patch("replace", f"{SPEC}/volumes/0", {"name": "v", "emptyDir": {}}),
        make_patch("add", f"{SPEC}/volumes/0/hostPath", None),
    ]
    assert report(made) == [("note", "unset", "entries[0].patches[0]", ("hangzhou", "beijing"), "")]


def test_an_insertion_in_the_middle_does_not_change_its_neighbours() -> None:
    subject = app_set(template=pod_template(containers=[container("a", args=["x"]), container("b")]))
    made = convert_one(subject, overrider(entry("*", patches=[patch("add", f"{SPEC}/containers/0", container("new"))])))
    (tweak,) = tweaks_of(made)
    assert tweak["tweaks"]["patches"] == [
        make_patch("add", f"{SPEC}/containers/0", container("new")),
        make_patch("add", f"{SPEC}/containers/0/args", None),
    ]
    assert report(made) == [("note", "unset", "entries[0].patches[0]", ("hangzhou", "beijing"), "")]


def test_an_item_after_a_patch_of_the_same_place_becomes_a_patch() -> None:
    rule = overrider(
        entry("*", patches=[patch("replace", f"{SPEC}/containers/0/image", "early:1")]),
        entry("beijing", items=[image("nginx", "late:1")]),
    )
    made = convert_one(app_set(), rule)
    late = {"patches": [make_patch("replace", f"{SPEC}/containers/0/image", "late:1")]}
    assert tweaks_of(made)[1:] == [{"pools": ["beijing"], "tweaks": late}]
    assert report(made) == [("note", "patch", "entries[1].items[0]", (), "")]


def test_replicas_are_never_patched() -> None:
    """In OpenYurt's controller a patch of replicas changes the tweak of the next pools, too."""
    rule = overrider(entry("*", patches=[patch("add", "/spec/replicas", 7)]), entry("beijing", items=[{"replicas": 8}]))
    made = convert_one(app_set(pools=[{**PLACED[0], "patch": {"spec": {"replicas": 6}}}, PLACED[1]]), rule)
    assert tweaks_of(made) == [
        {"pools": ["hangzhou"], "tweaks": {"replicas": 6}},
        {**EVERY, "tweaks": {"replicas": 7}},
        {"pools": ["beijing"], "tweaks": {"replicas": 8}},
    ]
    assert report(made) == []


def test_an_item_after_a_patch_of_another_place_stays_an_item() -> None:
    rule = overrider(
        entry("*", patches=[patch("add", f"{SPEC}/hostNetwork", True)]), entry("*", items=[image("nginx", "late:1")])
    )
    made = convert_one(app_set(), rule)
    assert tweaks_of(made)[1]["tweaks"] == {"containerImages": [{"name": "nginx", "targetImage": "late:1"}]}
    assert report(made) == []


def test_a_pool_patch_becomes_patches() -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "nginx", "args": ["-v"]}]}}}}
    made = convert_one(app_set(pools=[PLACED[0], {**PLACED[1], "patch": change}]))
    assert tweaks_of(made) == [
        {"pools": ["beijing"], "tweaks": {"patches": [make_patch("add", f"{SPEC}/containers/0/args", ["-v"])]}}
    ]
    assert report(made) == []


def test_a_selected_element_becomes_an_index() -> None:
    subject = app_set(template=pod_template(containers=[container("side"), container("app")]))
    made = convert_one(
        subject, overrider(entry("*", patches=[patch("add", f"{SPEC}/containers/[name=app]/args", ["-v"])]))
    )
    assert tweaks_of(made) == [
        {**EVERY, "tweaks": {"patches": [make_patch("add", f"{SPEC}/containers/1/args", ["-v"])]}}
    ]
    assert report(made) == [("note", "index", "entries[0].patches[0].path", (), "")]


def test_other_items_become_patches() -> None:
    made = convert_one(app_set(), overrider(entry("*", items=[{"labels": {"tier": "edge"}}])))
    assert tweaks_of(made) == [
        {**EVERY, "tweaks": {"patches": [make_patch("add", "/spec/template/metadata/labels/tier", "edge")]}}
    ]
    assert report(made) == [("note", "patch", "entries[0].items[0]", (), "")]


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


def test_the_documentation_lists_every_code() -> None:
    section = (ROOT / "docs" / "convert.md").read_text().partition("\n## The report\n")[2].partition("\n## ")[0]
    lines = section.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines if line.startswith("| `")]
    listed = {code.strip("`"): tuple(level.split(", ")) for code, level in cells if level.split(", ")[0] in LEVELS}
    assert listed == CODES


LEVELS = ("error", "warning", "note")
