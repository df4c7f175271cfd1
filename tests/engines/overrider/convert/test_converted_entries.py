"""Entries of overriders, pool patches and pool settings become tweaks without loss."""

from tests.builders import (
    container,
    entry,
    image,
    overrider,
    patch,
    pod_template,
    pool,
    yurt_app_set,
)
from tests.engines.overrider.convert.conversions import (
    EVERY,
    PLACED,
    SPEC,
    app_set,
    convert_one,
    in_pool,
    make_patch,
    report,
    tweaks_of,
)


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
