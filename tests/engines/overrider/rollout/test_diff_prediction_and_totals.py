"""The predicted effect of each kind of edit on running workloads."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rollout.diff_prediction_and_totals import sum_effects
from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import Effect
from tests.builders import (
    API,
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_spec,
    pool,
    tweak,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.rollout.fleets import SUBJECT_LABEL, effects, names, run

Document = dict[str, Any]
SET = yurt_app_set()
TO_2 = overrider(entry("*", items=[image("nginx", "nginx:2")]))
POOLS = ("hangzhou", "beijing")
ROLL = {"hangzhou": "rolls", "beijing": "rolls"}
STAY = {"hangzhou": "unchanged", "beijing": "unchanged"}


def fleet(*objects: Document, pools: tuple[str, ...] = POOLS, **given: Any) -> list[Document]:
    return [run(name, *objects, **given) for name in pools]


def items(*made: Any, pools: tuple[str, ...] = ("*",)) -> Document:
    return overrider(entry(*pools, items=list(made)))


A, B = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}


def variables(*env: Any) -> Document:
    return overrider(entry("*", patches=[patch("add", "/spec/template/spec/containers/0/env", list(env))]))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, TO_2, ROLL, id="created"),
        pytest.param(TO_2, None, ROLL, id="deleted"),
        pytest.param(TO_2, items(image("nginx", "nginx:3")), ROLL, id="another image"),
        pytest.param(
            TO_2, items(image("nginx", "nginx:2"), pools=("hangzhou",)), {**STAY, "beijing": "rolls"}, id="fewer pools"
        ),
        pytest.param(
            TO_2,
            overrider(*TO_2["entries"], entry("beijing", items=[image("nginx", "nginx:3")])),
            {**STAY, "beijing": "rolls"},
            id="another entry for one pool",
        ),
        pytest.param(TO_2, overrider(entry(*POOLS, items=[image("nginx", "nginx:2")])), STAY, id="pools by name"),
        pytest.param(TO_2, items(image("nginx", "nginx:2"), image("nginx", "nginx:2")), STAY, id="repeated item"),
        pytest.param(
            TO_2, items(image("nginx", "nginx:2"), {"replicas": 5}), dict.fromkeys(POOLS, "scales"), id="replicas"
        ),
        pytest.param(
            items(image("nginx", "nginx:2"), {"replicas": 2}),
            TO_2,
            dict.fromkeys(POOLS, "metadata"),
            id="released replicas of the same number",
        ),
        pytest.param(
            TO_2,
            items(image("nginx", "nginx:2"), {"replicas": 2}),
            dict.fromkeys(POOLS, "metadata"),
            id="claimed replicas of the same number",
        ),
        pytest.param(variables(A, B), variables(B, A), ROLL, id="reordered variables"),
        pytest.param(
            items(image("nginx", "nginx:2"), {"replicas": 3}),
            items({"replicas": 3}, image("nginx", "nginx:2")),
            STAY,
            id="reordered items",
        ),
        pytest.param(
            TO_2,
            overrider(*TO_2["entries"], entry("*", patches=[patch("add", "/metadata/annotations/note", "a")])),
            dict.fromkeys(POOLS, "metadata"),
            id="annotation of the workload",
        ),
        pytest.param(
            TO_2,
            overrider(*TO_2["entries"], entry("*", patches=[patch("add", "/spec/minReadySeconds", 5)])),
            dict.fromkeys(POOLS, "spec"),
            id="other field of the spec",
        ),
        pytest.param(TO_2, {**TO_2, "metadata": {**TO_2["metadata"], "labels": {"a": "b"}}}, STAY, id="label"),
        pytest.param(
            TO_2, overrider(entry("*", items=[image("absent", "nginx:2")])), ROLL, id="container that does not exist"
        ),
    ],
)
def test_an_edit_of_an_overrider(before: Document | None, after: Document | None, expected: dict[str, str]) -> None:
    old, new = ([SET, one] if one is not None else [SET] for one in (before, after))
    assert names(effects(old, new, fleet(*old))) == expected


def test_a_foreign_sidecar_stays_and_its_workload_rolls_as_the_others() -> None:
    def inject(stored: Document) -> None:
        pod_spec(stored)["containers"].insert(0, container("proxy", "proxy:1"))

    running = [run("hangzhou", SET, TO_2, change=inject), run("beijing", SET, TO_2)]
    found = effects([SET, TO_2], [SET], running)
    assert names(found) == ROLL
    assert found["hangzhou"].effect.paths[-1] == "/spec/template/spec/containers/1/image"
    assert names(effects([SET, TO_2], [SET, {**TO_2, "metadata": {**TO_2["metadata"], "labels": {}}}], running)) == STAY


def test_defaults_of_the_server_are_no_changes() -> None:
    def default(stored: Document) -> None:
        stored["spec"]["strategy"] = {"type": "RollingUpdate"}
        pod_spec(stored).update(restartPolicy="Always", securityContext={}, terminationGracePeriodSeconds=30)
        pod_spec(stored)["containers"][0].update(imagePullPolicy="IfNotPresent", terminationMessagePolicy="File")

    annotate = patch("add", "/spec/template/metadata/annotations/a", "b")
    edited = overrider(entry("hangzhou", items=[image("nginx", "nginx:2")], patches=[annotate]))
    found = effects([SET, TO_2], [SET, edited], fleet(SET, TO_2, change=default))
    assert found["hangzhou"].effect.paths[-1] == "/spec/template/metadata/annotations"


def test_replicas_of_an_autoscaler_stay_in_a_rollout() -> None:
    def scale(stored: Document) -> None:
        stored["spec"]["replicas"] = 7

    found = effects([SET, TO_2], [SET], fleet(SET, TO_2, change=scale))
    assert {one.effect[:3] for one in found.values()} == {("rolls", 7, (7, 7))}


def test_drift_that_is_corrected_without_the_edit_does_not_count() -> None:
    def drift(stored: Document) -> None:
        pod_spec(stored)["containers"][0]["image"] = "drifted:1"

    label = {**TO_2, "metadata": {**TO_2["metadata"], "labels": {"a": "b"}}}
    found = effects([SET, TO_2], [SET, label], fleet(SET, TO_2, change=drift))
    assert names(found) == STAY
    assert found["hangzhou"].effect.notes == (
        "other differences from its overrider or its template are due without this edit",
    )


# Edits of subjects.


def edited(subject: Document, *path: Any, value: Any) -> Document:
    made = copy.deepcopy(subject)
    place: Any = made
    for token in path[:-1]:
        place = place[token]
    place[path[-1]] = value
    return made


TEMPLATE = ("spec", "workloadTemplate", "deploymentTemplate", "spec", "template", "spec")


def test_a_new_revision_of_a_v1alpha1_set_copies_some_members_and_keeps_the_others() -> None:
    def add(stored: Document) -> None:
        stored["spec"] |= {"paused": True, "custom": "kept"}

    deployment = ("spec", "workloadTemplate", "deploymentTemplate", "spec", "minReadySeconds")
    found = effects([SET], [edited(SET, *deployment, value=7)], fleet(SET, change=add))
    spec = [path for path in found["beijing"].effect.paths if "/template/" not in path and path.startswith("/spec")]
    assert spec == ["/spec/minReadySeconds", "/spec/paused"]
    without_number = edited(SET, "spec", "topology", "pools", value=[pool("hangzhou", None), pool("beijing")])
    assert effects([SET], [without_number], fleet(SET))["hangzhou"].effect[:3] == ("scales", 2, (2, 0))


def test_a_template_edit_of_an_overridden_value_rolls_for_the_revision_label() -> None:
    subject = edited(SET, *TEMPLATE, "containers", value=[container(image="nginx:1.1")])
    found = effects([SET, TO_2], [subject, TO_2], fleet(SET, TO_2))
    assert names(found) == ROLL
    label = "/spec/template/metadata/labels/apps.openyurt.io~1controller-revision-hash"
    assert [path for path in found["beijing"].effect.paths if "template" in path] == [label]


def test_replicas_of_a_pool_scale_that_pool_only() -> None:
    subject = edited(SET, "spec", "topology", "pools", value=[pool("hangzhou", 4), pool("beijing")])
    found = effects([SET], [subject], fleet(SET))
    assert names(found) == {**STAY, "hangzhou": "scales"}
    assert found["hangzhou"].effect[:3] == ("scales", 2, (2, 4))


def test_a_scaled_pool_of_a_v1alpha1_set_loses_its_restart() -> None:
    def restart(stored: Document) -> None:
        stored["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}

    subject = edited(SET, "spec", "topology", "pools", value=[pool("hangzhou", 4), pool("beijing")])
    assert names(effects([SET], [subject], fleet(SET, change=restart))) == {**STAY, "hangzhou": "rolls"}


def test_the_patch_of_a_pool_rolls_that_pool_only() -> None:
    merge = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    subject = edited(SET, "spec", "topology", "pools", value=[pool("hangzhou", patch=merge), pool("beijing")])
    assert names(effects([SET], [subject], fleet(SET))) == {**STAY, "hangzhou": "rolls"}


def test_added_and_removed_pools_are_created_and_deleted() -> None:
    subject = edited(SET, "spec", "topology", "pools", value=[pool("hangzhou"), pool("jinan", 3)])
    found = effects([SET, TO_2], [subject, TO_2], fleet(SET, TO_2))
    assert names(found) == {"hangzhou": "unchanged", "beijing": "deleted", "jinan": "created"}
    assert (found["beijing"].effect.pods, found["jinan"].effect.pods, found["jinan"].name) == (2, 3, "")


def test_a_pool_that_had_no_workload_before_is_not_created_by_the_edit() -> None:
    subject = edited(SET, *TEMPLATE, "hostNetwork", value=True)
    assert names(effects([SET], [subject], fleet(SET, pools=("hangzhou",)))) == {"hangzhou": "rolls"}


def test_a_deleted_subject_takes_its_workloads_along() -> None:
    assert names(effects([SET, TO_2], [TO_2], fleet(SET, TO_2))) == dict.fromkeys(POOLS, "deleted")


def test_an_edit_in_another_version_is_an_error() -> None:
    found = effects([SET], [yurt_app_set_v1beta1()], fleet(SET))
    assert names(found) == dict.fromkeys(POOLS, "error")
    assert "write the edit in that version" in found["beijing"].error


BETA = yurt_app_set_v1beta1(replicas=2)
BETA_TEMPLATE = ("spec", "workload", "workloadTemplate", "deploymentTemplate", "spec")
NODE_POOLS = [node_pool(name) for name in POOLS]


def test_an_edit_of_one_tweak_of_a_v1beta1_set_rolls_every_pool() -> None:
    image_tweak = {"name": "nginx", "targetImage": "nginx:9"}
    subject = edited(
        BETA, "spec", "workload", "workloadTweaks", value=[tweak("beijing", containerImages=[image_tweak])]
    )
    found = effects([BETA, *NODE_POOLS], [subject, *NODE_POOLS], fleet(BETA, *NODE_POOLS))
    assert names(found) == ROLL
    assert "/spec/template/spec/containers/0/image" in found["beijing"].effect.paths
    assert "/spec/template/spec/containers/0/image" not in found["hangzhou"].effect.paths


def test_a_new_revision_of_a_v1beta1_set_resets_replicas() -> None:
    def scale(stored: Document) -> None:
        stored["spec"]["replicas"] = 7

    subject = edited(BETA, *BETA_TEMPLATE, "minReadySeconds", value=1)
    found = effects([BETA, *NODE_POOLS], [subject, *NODE_POOLS], fleet(BETA, *NODE_POOLS, change=scale))
    assert found["beijing"].effect[:3] == ("rolls", 2, (7, 2))


def test_a_new_revision_keeps_replicas_that_an_entry_leaves() -> None:
    rule = overrider(entry("*", items=[{"initialReplicas": 3}, image("nginx", "nginx:2")]))
    running = fleet(BETA, rule, *NODE_POOLS)
    for one in running:
        one["spec"]["replicas"] = 9
    found = effects(
        [BETA, rule, *NODE_POOLS],
        [edited(BETA, *BETA_TEMPLATE, "minReadySeconds", value=1), rule, *NODE_POOLS],
        running,
    )
    assert {one.effect.replicas for one in found.values()} == {(9, 9)}
    other = overrider(entry("*", items=[{"initialReplicas": 4}, image("nginx", "nginx:2")]))
    assert {
        one.effect.name for one in effects([BETA, rule, *NODE_POOLS], [BETA, other, *NODE_POOLS], running).values()
    } == {"metadata"}


def test_the_same_quantity_in_another_notation_is_no_new_revision() -> None:
    def limited(cpu: str) -> Document:
        pods = [container(resources={"limits": {"cpu": cpu}})]
        return edited(BETA, *BETA_TEMPLATE, "template", "spec", "containers", value=pods)

    old, new = limited("1"), limited("1000m")
    assert names(effects([old, *NODE_POOLS], [new, *NODE_POOLS], fleet(old, *NODE_POOLS))) == STAY


def test_a_released_workload_of_a_v1beta1_set_stays() -> None:
    def release(stored: Document) -> None:
        del stored["metadata"]["labels"][SUBJECT_LABEL]

    subject = edited(BETA, *BETA_TEMPLATE, "minReadySeconds", value=1)
    running = [run("hangzhou", BETA, *NODE_POOLS, change=release), run("beijing", BETA, *NODE_POOLS)]
    assert names(effects([BETA, *NODE_POOLS], [subject, *NODE_POOLS], running)) == {**STAY, "beijing": "rolls"}


def test_labels_of_a_node_pool_add_a_workload_of_a_v1beta1_set() -> None:
    subject = yurt_app_set_v1beta1(pools=[], selector={"matchLabels": {"region": "east"}}, replicas=2)
    before = [subject, node_pool("hangzhou", {"region": "east"}), node_pool("beijing")]
    after = [subject, node_pool("hangzhou"), node_pool("beijing", {"region": "east"})]
    found = effects(before, after, fleet(*before, pools=("hangzhou",)))
    assert names(found) == {"hangzhou": "deleted", "beijing": "created"}


@pytest.mark.parametrize("subject", [SET, BETA])
def test_a_label_of_a_node_pool_moves_its_workload_to_another_entry(subject: Document) -> None:
    rule = overrider(entry(selector={"matchLabels": {"region": "east"}}, items=[image("nginx", "nginx:2")]))
    before = [subject, rule, node_pool("hangzhou", {"region": "east"}), node_pool("beijing")]
    after = [*before[:3], node_pool("beijing", {"region": "east", "tier": "edge"})]
    running = fleet(*before)
    assert names(effects(before, after, running)) == {**STAY, "beijing": "rolls"}
    gone = [*before[:2], before[3]]
    assert names(effects(before, gone, running))["hangzhou"] == ("rolls" if subject is SET else "deleted")


def daemon_fleet(*objects: Document) -> list[Document]:
    return fleet(*objects, replicas=1)


DAEMON = yurt_app_daemon("demo")
EAST = [node_pool(name, {"region": "east"}) for name in POOLS]


def test_a_taint_rolls_the_workload_of_a_daemon_in_that_pool() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    after = [DAEMON, EAST[0], node_pool("beijing", {"region": "east"}, taints=taints)]
    assert names(effects([DAEMON, *EAST], after, daemon_fleet(DAEMON, *EAST))) == {**STAY, "beijing": "rolls"}


def test_without_a_controller_an_edit_of_a_daemon_rolls_no_workload() -> None:
    newer = [{**one, "apiVersion": API.replace("v1alpha1", "v1beta2")} for one in EAST]
    subject = edited(DAEMON, *TEMPLATE, "hostNetwork", value=True)
    rule = overrider(
        entry("beijing", items=[image("nginx", "nginx:2")]),
        subject={"apiVersion": API, "kind": "YurtAppDaemon", "name": "demo"},
    )
    running = daemon_fleet(DAEMON, *newer, rule)
    found = effects([DAEMON, *newer, rule], [subject, *newer, rule], running)
    assert names(found) == {**STAY, "beijing": "metadata"}


ONE_ROLL, SCALE, NO_CHANGE = Effect("rolls", 3), Effect("scales", 2), Effect("unchanged")


@pytest.mark.parametrize(
    ("effects", "text"),
    [
        ([], "changes none of 0 workloads"),
        ([NO_CHANGE], "changes none of 1 workload"),
        ([ONE_ROLL, NO_CHANGE, NO_CHANGE], "rolls 1 of 3 workloads, 3 pods"),
        ([ONE_ROLL, ONE_ROLL, SCALE], "rolls 2 of 3 workloads, 6 pods; scales 1 workload, 2 pods"),
        ([SCALE, NO_CHANGE], "scales 1 of 2 workloads, 2 pods"),
        ([Effect("created", 1), NO_CHANGE], "creates 1 workload, 1 pod"),
        ([ONE_ROLL, Effect("created", 4), Effect("deleted", 2)], "rolls 1 of 2 workloads, 3 pods; creates 1 workload, 4 pods; deletes 1 workload, 2 pods"),
        ([Effect("metadata"), Effect("spec"), NO_CHANGE], "changes other fields of 1 of 3 workloads; changes metadata of 1 workload"),
        ([Effect("error"), NO_CHANGE], "cannot render 1 of 2 workloads"),
    ],
)  # fmt: skip
def test_the_headline_names_all_effects(effects: list[Effect], text: str) -> None:
    assert sum_effects(effects).headline == text
