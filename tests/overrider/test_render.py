import copy
from typing import Any

import pytest

from app.overrider.undo import RENDERED_ANNOTATION, UNDO_ANNOTATION
from tests.builders import (
    API,
    POOL_LABEL,
    container,
    entry,
    image,
    images,
    node_pool,
    overrider,
    owner,
    patch,
    pod_spec,
    pod_template,
    pool,
    rendered,
    review,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)

NEW_IMAGE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))


def unchanged(answer: Any) -> bool:
    return bool(answer.allowed and not answer.patch)


# Which workloads are rendered.


def test_a_workload_in_an_overridden_pool_gets_image_and_replicas() -> None:
    rule = overrider(entry("hangzhou", items=[image("nginx", "nginx:1.14.2"), {"replicas": 3}]))
    result = rendered(workload(), yurt_app_set(), rule)
    assert images(result) == {"nginx": "nginx:1.14.2"}
    assert result["spec"]["replicas"] == 3


@pytest.mark.parametrize("owners", [[], None, "x", [None], [{"kind": "YurtAppSet"}], [{"apiVersion": "v1", "kind": 1}]])
def test_owner_references_of_any_shape_are_no_owner_and_no_panic(owners: Any) -> None:
    document = workload()
    document["metadata"]["ownerReferences"] = owners
    assert unchanged(review(document, yurt_app_set(), NEW_IMAGE))


def test_the_owner_is_found_behind_other_references() -> None:
    owners = [{"apiVersion": "v1", "kind": "Foo", "name": "x", "uid": "1"}, owner()]
    assert images(rendered(workload(owners=owners), yurt_app_set(), NEW_IMAGE)) == {"nginx": "nginx:2.0"}


def test_the_controlling_owner_wins_over_one_that_stands_before_it() -> None:
    owners = [owner(name="other", controller=False), owner()]
    other = overrider(entry("*", items=[{"replicas": 9}]), name="o", subject={"kind": "YurtAppSet", "name": "other"})
    result = rendered(workload(owners=owners), yurt_app_set(), yurt_app_set("other"), NEW_IMAGE, other)
    assert (images(result), result["spec"]["replicas"]) == ({"nginx": "nginx:2.0"}, 2)


def test_a_v1beta1_owner_is_left_alone() -> None:
    owners = [owner(apiVersion="apps.openyurt.io/v1beta1")]
    assert unchanged(review(workload(owners=owners), yurt_app_set(), NEW_IMAGE))


def test_an_owner_of_another_group_is_no_owner() -> None:
    assert unchanged(review(workload(owners=[owner(apiVersion="example.com/v1alpha1")]), yurt_app_set(), NEW_IMAGE))


def test_a_subject_recreated_under_the_same_name_is_another_subject() -> None:
    answer = review(workload(owners=[owner(uid="an-older-one")]), yurt_app_set(), NEW_IMAGE)
    assert unchanged(answer)
    assert "is another object now" in answer.warnings[0]


def test_an_overrider_without_api_version_in_its_subject_applies() -> None:
    rule = overrider(entry("*", items=[{"replicas": 7}]), subject={"kind": "YurtAppSet", "name": "demo"})
    assert rendered(workload(), yurt_app_set(), rule)["spec"]["replicas"] == 7


def test_an_overrider_of_another_namespace_does_not_apply() -> None:
    rule = overrider(entry("*", items=[{"replicas": 7}]), namespace="elsewhere")
    assert unchanged(review(workload(), yurt_app_set(), rule))


def test_without_an_overrider_nothing_is_patched_whatever_the_template_says() -> None:
    assert unchanged(review(workload(paused=True), yurt_app_set(minReadySeconds=9)))


def test_an_overrider_whose_entries_leave_the_pool_out_changes_nothing() -> None:
    rule = overrider(entry("beijing", items=[{"replicas": 7}]))
    assert unchanged(review(workload(), yurt_app_set(minReadySeconds=9), rule))


@pytest.mark.parametrize("fields", [{"subResource": "scale"}, {"subResource": "status"}])
def test_subresources_are_not_rendered(fields: dict[str, str]) -> None:
    assert unchanged(review(workload(), yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=workload(), **fields))


def test_a_delete_is_admitted() -> None:
    assert unchanged(review(None, yurt_app_set(), NEW_IMAGE, operation="DELETE", old=workload()))


def test_a_workload_being_deleted_is_not_touched() -> None:
    document = workload()
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert unchanged(review(document, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=workload()))


def test_a_dry_run_is_answered_like_any_other() -> None:
    objects = yurt_app_set(), NEW_IMAGE
    assert review(workload(), *objects, dryRun=True).patch == review(workload(), *objects).patch != ()


def test_another_kind_is_a_bad_request() -> None:
    answer = review({"kind": "Pod", "metadata": {}}, kind="Pod")
    assert (answer.allowed, answer.code) == (False, 400)
    assert answer.message == "expected a Deployment or StatefulSet but got a Pod"


# Somebody else's broken object is nobody's denial.


def test_a_workload_without_a_pool_label_is_admitted_with_a_warning() -> None:
    answer = review(workload(pool=None), yurt_app_set(), NEW_IMAGE)
    assert unchanged(answer)
    assert POOL_LABEL in answer.warnings[0]


def test_a_missing_subject_is_a_warning() -> None:
    answer = review(workload(), NEW_IMAGE)
    assert unchanged(answer)
    assert "its owner YurtAppSet default/demo is not known" in answer.warnings[0]


def test_a_pool_that_the_topology_does_not_list_is_a_warning() -> None:
    answer = review(workload(pool="gone"), yurt_app_set(), NEW_IMAGE)
    assert unchanged(answer)
    assert "has no pool 'gone' in spec.topology.pools" in answer.warnings[0]


@pytest.mark.parametrize(
    "spec",
    [
        None, [], {}, {"workloadTemplate": []}, {"workloadTemplate": {"deploymentTemplate": {"spec": []}}},
        {"workloadTemplate": {"deploymentTemplate": {"spec": {"template": "x"}}}, "topology": {"pools": "x"}},
        {"workloadTemplate": {"deploymentTemplate": {"spec": {}}}, "topology": {"pools": [None, {"name": "hangzhou"}]}},
    ],
)  # fmt: skip
def test_a_malformed_subject_never_denies(spec: Any) -> None:
    subject = {**yurt_app_set(), "spec": spec}
    assert review(workload(), subject, NEW_IMAGE).allowed


def test_a_pool_patch_that_does_not_fit_is_a_warning() -> None:
    broken = pool("hangzhou", patch={"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}})
    answer = review(workload(), yurt_app_set(pools=[broken]), overrider(entry("*", items=[{"replicas": 4}])))
    assert unchanged(answer)
    assert "the pool's own patch does not fit" in answer.warnings[0]


# Entries: pools, order, items, patches.


@pytest.mark.parametrize("pools", [("*", "-hangzhou"), ("-hangzhou", "*"), ("hangzhou", "-hangzhou"), ("-hangzhou",)])
def test_exclusion_wins_in_either_order(pools: tuple[str, ...]) -> None:
    rule = overrider(entry(*pools, items=[{"replicas": 9}]))
    assert unchanged(review(workload(), yurt_app_set(), rule))


def test_an_entry_applies_once_however_often_it_names_the_pool() -> None:
    template = yurt_app_set(template=pod_template(containers=[container(args=["a"])]))
    patches = [patch("add", "/spec/template/spec/containers/0/args/-", "x")]
    rule = overrider(entry("hangzhou", "hangzhou", "*", patches=patches))
    assert pod_spec(rendered(workload(), template, rule))["containers"][0]["args"] == ["a", "x"]


def test_entries_run_in_order_and_the_last_wins() -> None:
    first = entry("hangzhou", patches=[patch("replace", "/spec/replicas", 7)])
    assert (
        rendered(workload(), yurt_app_set(), overrider(first, entry("*", items=[{"replicas": 5}])))["spec"]["replicas"]
        == 5
    )


def test_inside_an_entry_items_come_before_patches() -> None:
    both = entry(
        "*",
        items=[image("nginx", "nginx-item"), {"replicas": 5}],
        patches=[patch("replace", "/spec/template/spec/containers/0/image", "nginx-patch")],
    )
    result = rendered(workload(), yurt_app_set(), overrider(both))
    assert (images(result), result["spec"]["replicas"]) == ({"nginx": "nginx-patch"}, 5)


def test_an_image_item_reaches_containers_and_init_containers_of_its_name() -> None:
    template = pod_template(
        containers=[container("c"), container("d")], initContainers=[container("c"), container("i")]
    )
    rule = overrider(entry("*", items=[image("c", "new")]))
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert [c["image"] for c in pod_spec(result)["containers"]] == ["new", "nginx:1.0"]
    assert [c["image"] for c in pod_spec(result)["initContainers"]] == ["new", "nginx:1.0"]


def test_an_unknown_container_is_a_warning_that_names_those_there_are() -> None:
    answer = review(workload(), yurt_app_set(), overrider(entry("*", items=[image("ngnix", "x"), {"replicas": 3}])))
    assert answer.warnings == ("entries[0].items[0]: no container is named 'ngnix'; there are nginx",)


def test_the_pool_token_is_replaced_in_values_paths_and_images() -> None:
    rule = overrider(
        entry(
            "*",
            items=[image("nginx", "reg.{{nodepool}}.local/nginx")],
            patches=[
                patch("add", "/metadata/annotations/{{nodepool}}", "x"),
                patch("add", "/spec/template/spec/nodeSelector", {"{{nodepool}}": ["in {{nodepool}}"][0]}),
            ],
        )
    )
    result = rendered(workload(), yurt_app_set(), rule)
    assert images(result) == {"nginx": "reg.hangzhou.local/nginx"}
    assert result["metadata"]["annotations"]["hangzhou"] == "x"
    assert pod_spec(result)["nodeSelector"] == {"hangzhou": "in hangzhou"}


def test_remove_removes_and_replace_replaces_without_merging() -> None:
    template = pod_template(nodeSelector={"a": "b"}, containers=[container(args=["x"])])
    rule = overrider(
        entry(
            "*",
            patches=[
                patch("remove", "/spec/template/spec/containers/0/args"),
                patch("replace", "/spec/template/spec/nodeSelector", {"z": "1"}),
            ],
        )
    )
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert "args" not in pod_spec(result)["containers"][0]
    assert pod_spec(result)["nodeSelector"] == {"z": "1"}


def test_removing_a_list_element_leaks_nothing_into_its_neighbour() -> None:
    first = container("c0", args=["--a"], env=[{"name": "E", "value": "1"}])
    template = pod_template(containers=[first, container("c1", "i1")])
    rule = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/containers/0")]))
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert pod_spec(result)["containers"] == [{"name": "c1", "image": "i1"}]


def test_null_unsets_a_member() -> None:
    template = pod_template(containers=[container(env=[{"name": "E", "value": "1"}])])
    rule = overrider(entry("*", patches=[patch("replace", "/spec/template/spec/containers/0/env", None)]))
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert "env" not in pod_spec(result)["containers"][0]


# Patches that do not fit.

BROKEN = overrider(
    entry("*", items=[{"replicas": 9}]),
    entry("hangzhou", patches=[patch("add", "/spec/paused", True), patch("remove", "/spec/template/spec/volumes")]),
)


def test_a_patch_that_does_not_fit_denies_a_create_and_names_entry_operation_and_path() -> None:
    answer = review(workload(), yurt_app_set(), BROKEN)
    assert (answer.allowed, answer.code, answer.reason, answer.patch) == (False, 403, "Forbidden", ())
    assert answer.message == (
        "YurtAppOverrider default/demo1 cannot be rendered for node pool hangzhou: entries[1].patches[1]: "
        "remove /spec/template/spec/volumes: member 'volumes' does not exist"
    )


def test_a_patch_that_does_not_fit_denies_an_update_of_what_runs() -> None:
    changed = workload(template={"metadata": {}, "spec": {"containers": [container(image="other")]}})
    assert not review(changed, yurt_app_set(), BROKEN, operation="UPDATE", old=workload()).allowed


@pytest.mark.parametrize("change", ["annotations", "finalizers", "replicas"])
def test_a_patch_that_does_not_fit_never_blocks_metadata_or_replicas(change: str) -> None:
    document = workload(**({"replicas": 8} if change == "replicas" else {}))
    if change != "replicas":
        document["metadata"][change] = {} if change == "annotations" else ["example.com/x"]
    answer = review(document, yurt_app_set(), BROKEN, operation="UPDATE", old=workload())
    assert unchanged(answer)
    assert "cannot be rendered for node pool hangzhou" in answer.warnings[0]


def test_an_addition_to_a_list_that_the_template_lacks_keeps_other_peoples_elements() -> None:
    rule = overrider(entry("*", patches=[patch("add", "/spec/template/spec/volumes/-", {"name": "mine"})]))
    living = workload()
    pod_spec(living)["volumes"] = [{"name": "theirs"}]
    first = rendered(living, yurt_app_set(), rule)
    assert {volume["name"] for volume in pod_spec(first)["volumes"]} == {"theirs", "mine"}
    again = rendered(first, yurt_app_set(), rule, operation="UPDATE", old=first)
    assert again == first


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([patch("replace", "/spec/replicas", "three")], "/spec/replicas: must be an integer"),
        ([patch("add", "/metadata/labels/n", 1)], "/metadata/labels/n: must be a string"),
        ([patch("add", "/spec/template/spec/containers/-", container())], 'containers/0 has the same name "nginx"'),
        ([patch("replace", "/spec/selector", {})], "/spec/selector identifies"),
        ([patch("replace", "/metadata/ownerReferences", [])], "/metadata/ownerReferences identifies"),
        ([patch("replace", "/metadata/labels", {})], "/metadata/labels/apps.openyurt.io~1pool-name identifies"),
        ([patch("remove", "/spec/template/metadata/labels")], "/spec/template/metadata/labels/app identifies"),
    ],
)
def test_what_no_workload_may_become_is_denied(operations: Any, text: str) -> None:
    answer = review(workload(), yurt_app_set(), overrider(entry("*", patches=operations)))
    assert not answer.allowed
    assert text in answer.message


# The base, and what survives it.


def test_the_template_is_applied_when_an_overrider_matches() -> None:
    template = pod_template(containers=[container(image="nginx:1.1", env=[{"name": "E", "value": "1"}])])
    subject = yurt_app_set(template=template, minReadySeconds=5)
    result = rendered(workload(), subject, overrider(entry("*", items=[{"replicas": 4}])))
    assert result["spec"]["minReadySeconds"] == 5
    assert pod_spec(result)["containers"] == [container(image="nginx:1.1", env=[{"name": "E", "value": "1"}])]


def test_what_the_template_does_not_name_survives() -> None:
    living = workload(paused=True, progressDeadlineSeconds=77)
    living["metadata"]["annotations"]["other.example.com/seen"] = "yes"
    living["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    pod_spec(living)["containers"][0]["imagePullPolicy"] = "Always"
    pod_spec(living)["containers"].append(container("sidecar"))
    pod_spec(living)["terminationGracePeriodSeconds"] = 30
    result = rendered(living, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=living)
    expected = copy.deepcopy(living)
    pod_spec(expected)["containers"][0]["image"] = "nginx:2.0"
    for key in (RENDERED_ANNOTATION, UNDO_ANNOTATION):
        if key in result["metadata"]["annotations"]:
            expected["metadata"]["annotations"][key] = result["metadata"]["annotations"][key]
    assert result == expected


def test_replicas_that_an_autoscaler_set_survive_an_update_and_the_pools_are_set_on_create() -> None:
    scaled = workload(replicas=7)
    assert rendered(scaled, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=scaled)["spec"]["replicas"] == 7
    assert rendered(scaled, yurt_app_set(), NEW_IMAGE)["spec"]["replicas"] == 2


def test_containers_of_the_template_come_first_whatever_another_webhook_put_before_them() -> None:
    living = workload()
    pod_spec(living)["containers"].insert(0, container("sidecar", "s"))
    rule = overrider(entry("*", patches=[patch("replace", "/spec/template/spec/containers/0/image", "nginx:9")]))
    assert images(rendered(living, yurt_app_set(), rule)) == {"nginx": "nginx:9", "sidecar": "s"}


def test_immutable_members_are_left_alone_on_update() -> None:
    living = workload("StatefulSet", serviceName="old")
    subject = yurt_app_set(kind="StatefulSet", serviceName="new")
    assert rendered(living, subject, NEW_IMAGE, operation="UPDATE", old=living)["spec"]["serviceName"] == "old"
    assert rendered(living, subject, NEW_IMAGE)["spec"]["serviceName"] == "new"


def test_a_statefulset_is_rendered_from_the_statefulset_template() -> None:
    subject = yurt_app_set(kind="StatefulSet")
    assert images(rendered(workload("StatefulSet"), subject, NEW_IMAGE)) == {"nginx": "nginx:2.0"}


def test_a_workload_kind_the_subject_has_no_template_for_is_a_warning() -> None:
    answer = review(workload("StatefulSet"), yurt_app_set(), NEW_IMAGE)
    assert unchanged(answer)
    assert "has no spec.workloadTemplate.statefulSetTemplate" in answer.warnings[0]


TERM = {"matchExpressions": [{"key": "apps.openyurt.io/nodepool", "operator": "In", "values": ["hangzhou"]}]}


def required(document: dict[str, Any]) -> Any:
    affinity = pod_spec(document).get("affinity", {})
    return affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")


def test_the_pools_node_selector_term_and_tolerations_are_added_once() -> None:
    toleration = {"key": "edge", "operator": "Exists"}
    subject = yurt_app_set(pools=[pool("hangzhou", nodeSelectorTerm=TERM, tolerations=[toleration])])
    once = rendered(workload(), subject, NEW_IMAGE)
    assert required(once) == {"nodeSelectorTerms": [TERM]}
    assert pod_spec(once)["tolerations"] == [toleration]
    assert rendered(once, subject, NEW_IMAGE, operation="UPDATE", old=once) == once


def test_the_pools_expressions_join_every_term_of_the_template() -> None:
    own = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [own]}}}
    subject = yurt_app_set(pools=[pool("hangzhou", nodeSelectorTerm=TERM)], template=pod_template(affinity=affinity))
    terms = required(rendered(workload(), subject, NEW_IMAGE))["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [*own["matchExpressions"], *TERM["matchExpressions"]]}]


def test_an_empty_node_selector_term_is_never_left_behind() -> None:
    living = workload()
    nothing = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    pod_spec(living)["affinity"] = {"nodeAffinity": nothing}
    assert "affinity" not in pod_spec(rendered(living, yurt_app_set(), NEW_IMAGE))


def test_the_pools_patch_is_merged_strategically_and_wins_over_its_replicas() -> None:
    own = {"spec": {"replicas": 6, "template": {"spec": {"containers": [{"name": "nginx", "tty": True}]}}}}
    result = rendered(workload(), yurt_app_set(pools=[pool("hangzhou", patch=own)]), NEW_IMAGE)
    assert result["spec"]["replicas"] == 6
    assert pod_spec(result)["containers"] == [container(image="nginx:2.0", tty=True)]
    assert result["metadata"]["annotations"]["apps.openyurt.io/patch"] == (
        '{"spec":{"replicas":6,"template":{"spec":{"containers":[{"name":"nginx","tty":true}]}}}}'
    )


def test_a_daemons_workload_gets_the_pools_node_selector_and_tolerates_its_taints() -> None:
    taint = {"key": "edge", "value": "x", "effect": "NoSchedule"}
    rule = overrider(entry("*", items=[{"replicas": 4}]), subject={"kind": "YurtAppDaemon", "name": "agent"})
    living = workload(owners=[owner("YurtAppDaemon", "agent")])
    own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}
    subject = yurt_app_daemon(template=pod_template(affinity=own, nodeSelector={"disk": "ssd"}))
    result = rendered(living, subject, node_pool("hangzhou", taints=[taint]), rule)
    assert pod_spec(result)["nodeSelector"] == {"apps.openyurt.io/nodepool": "hangzhou"}
    assert pod_spec(result)["tolerations"] == [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]
    assert "affinity" not in pod_spec(result)
    assert result["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"] == "hangzhou"


# Rendering again, and taking back.

APPENDING = overrider(
    entry(
        "*",
        items=[{"replicas": 5}],
        patches=[
            patch("add", "/spec/template/spec/volumes", [{"name": "mine", "emptyDir": {}}]),
            patch("add", "/spec/template/spec/containers/0/args", ["a"]),
            patch("add", "/spec/template/spec/containers/0/args/-", "b"),
            patch("add", "/spec/template/spec/containers/0/env", [{"name": "P", "value": "{{nodepool}}"}]),
            patch("add", "/spec/template/spec/nodeSelector", {"z": "1"}),
            patch("add", "/spec/template/spec/tolerations", [{"key": "t"}]),
            patch("replace", "/spec/template/spec/containers/0/image", "nginx:9"),
        ],
    )
)


def test_rendering_what_was_rendered_changes_nothing() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    assert unchanged(review(first, yurt_app_set(), APPENDING, operation="UPDATE", old=first))


def test_defaults_that_the_apiserver_added_do_not_make_a_second_render_differ() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    pod_spec(first)["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    pod_spec(first)["volumes"][0]["emptyDir"]["sizeLimit"] = "1Gi"
    pod_spec(first)["restartPolicy"] = "Always"
    assert rendered(first, yurt_app_set(), APPENDING, operation="UPDATE", old=first) == first


def test_when_the_overrider_is_gone_the_workload_is_as_it_was_before() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    assert rendered(first, yurt_app_set(), operation="UPDATE", old=first) == workload()


def test_when_the_pool_is_excluded_the_workload_is_as_it_was_before() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    excluded = copy.deepcopy(APPENDING)
    excluded["entries"][0]["pools"].append("-hangzhou")
    assert rendered(first, yurt_app_set(), excluded, operation="UPDATE", old=first) == workload()


def test_taking_back_leaves_what_others_added_beside() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    pod_spec(first)["volumes"].append({"name": "theirs"})
    pod_spec(first)["nodeSelector"]["theirs"] = "1"
    first["metadata"]["annotations"]["theirs"] = "1"
    reverted = rendered(first, yurt_app_set(), operation="UPDATE", old=first)
    assert pod_spec(reverted)["volumes"] == [{"name": "theirs"}]
    assert pod_spec(reverted)["nodeSelector"] == {"theirs": "1"}
    assert reverted["metadata"]["annotations"] == {"apps.openyurt.io/patch": "", "theirs": "1"}


def test_a_changed_overrider_replaces_what_the_old_one_added() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    second = overrider(entry("*", patches=[patch("add", "/spec/template/spec/volumes", [{"name": "other"}])]))
    result = rendered(first, yurt_app_set(), second, operation="UPDATE", old=first)
    assert pod_spec(result) == {"containers": [container()], "volumes": [{"name": "other"}]}
    assert result["spec"]["replicas"] == 2


def test_the_memory_of_a_render_is_found_on_the_stored_object_when_a_client_lost_it() -> None:
    first = rendered(workload(), yurt_app_set(), APPENDING)
    stripped = copy.deepcopy(first)
    for key in (RENDERED_ANNOTATION, UNDO_ANNOTATION):
        del stripped["metadata"]["annotations"][key]
    assert rendered(stripped, yurt_app_set(), APPENDING, operation="UPDATE", old=first) == first


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"spec":[]}', '{"spec":{"template":null}}', '{"metadata":{"name":null}}']
)
def test_a_tampered_memory_is_no_panic_and_cannot_take_identity_away(text: str) -> None:
    first = rendered(workload(), yurt_app_set(), NEW_IMAGE)
    first["metadata"]["annotations"][UNDO_ANNOTATION] = text
    result = rendered(first, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=first)
    assert images(result) == {"nginx": "nginx:2.0"}
    assert result["metadata"]["name"] == first["metadata"]["name"]


def test_the_hash_changes_with_what_the_pool_gets_and_not_otherwise() -> None:
    def digest(*objects: dict[str, Any]) -> str:
        return str(rendered(workload(), *objects)["metadata"]["annotations"][RENDERED_ANNOTATION])

    base = digest(yurt_app_set(), NEW_IMAGE)
    elsewhere = overrider(*NEW_IMAGE["entries"], entry("beijing", items=[{"replicas": 1}]))
    assert digest(yurt_app_set(), elsewhere) == base
    in_two = overrider(
        entry("hangzhou", items=NEW_IMAGE["entries"][0]["items"]), entry("beijing", items=[{"replicas": 1}])
    )
    assert digest(yurt_app_set(), in_two) == base
    assert digest(yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:3")]))) != base
    assert digest(yurt_app_set(minReadySeconds=1), NEW_IMAGE) != base


# Several overriders, several clusters.


def test_of_two_overriders_the_older_is_in_effect_and_the_other_is_named() -> None:
    older = overrider(entry("*", items=[{"replicas": 3}]), name="z", creationTimestamp="2023-01-01T00:00:00Z")
    newer = overrider(entry("*", items=[{"replicas": 4}]), name="a", creationTimestamp="2024-01-01T00:00:00Z")
    for order in ((older, newer), (newer, older)):
        answer = review(workload(), yurt_app_set(), *order)
        assert answer.warnings == ("YurtAppOverrider z is in effect; a for the same subject is ignored",)
        assert rendered(workload(), yurt_app_set(), *order)["spec"]["replicas"] == 3


def in_cluster(document: dict[str, Any], cluster: str) -> dict[str, Any]:
    made = copy.deepcopy(document)
    made["metadata"].setdefault("annotations", {})["kcp.io/cluster"] = cluster
    return made


def test_the_cluster_annotation_selects_whose_subjects_and_overriders_are_used() -> None:
    objects = [
        document
        for cluster, replicas in (("ws1", 11), ("ws2", 12))
        for document in (
            in_cluster(yurt_app_set(), cluster),
            in_cluster(overrider(entry("*", items=[{"replicas": replicas}])), cluster),
        )
    ]
    assert rendered(in_cluster(workload(), "ws1"), *objects)["spec"]["replicas"] == 11
    assert rendered(in_cluster(workload(), "ws2"), *objects)["spec"]["replicas"] == 12
    assert unchanged(review(in_cluster(workload(), "ws3"), *objects))
    assert unchanged(review(workload(), *objects))


def test_api_constant_is_the_shipped_one() -> None:
    assert API == "apps.openyurt.io/v1alpha1"
