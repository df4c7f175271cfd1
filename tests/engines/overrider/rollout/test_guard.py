"""The guard at admission: warnings and refusals of edits that roll many workloads, and the annotation that allows one."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rollout.guard import ALLOW_ANNOTATION, GuardLimits, guard_edit, make_allowance
from fleethook.model.admission import Response
from tests.builders import (
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pool,
    request,
    store_of,
    validate_overrider,
    yurt_app_set,
    yurt_app_set_v1beta1,
)

Document = dict[str, Any]
POOLS = [f"pool-{number}" for number in range(20)]
SET = yurt_app_set(pools=[pool(name, 3) for name in POOLS])
REFUSE = GuardLimits(warn_share=0.2, refuse_share=0.5)
OLD = overrider(entry("*", items=[image("nginx", "nginx:2")]))


def edit_for(*pools: str, claim: str = "nginx:3") -> Document:
    return overrider(*OLD["entries"], entry(*pools, items=[image("nginx", claim)]))


def review(
    new: Document | None,
    old: Document | None = OLD,
    *,
    limits: GuardLimits = REFUSE,
    subject: Document = SET,
    **given: Any,
) -> Response:
    operation = "DELETE" if new is None else "UPDATE" if old is not None else "CREATE"
    asked = request(new, operation, old, kind="YurtAppOverrider", **given)
    stored = [] if old is None else [old]
    return validate_overrider(asked, store=store_of(subject, *stored), limits=limits)


def annotate(document: Document, value: str) -> Document:
    made = copy.deepcopy(document)
    made["metadata"]["annotations"] = {ALLOW_ANNOTATION: value}
    return made


def read_allowance(response: Response) -> str:
    assert not response.allowed
    return response.message.rpartition(f"{ALLOW_ANNOTATION}: ")[2]


@pytest.mark.parametrize(
    ("number", "warns", "refuses"), [(4, False, False), (5, True, False), (10, True, False), (11, False, True)]
)
def test_the_share_of_workloads_decides(number: int, warns: Any, refuses: Any) -> None:
    answer = review(edit_for(*POOLS[:number]))
    assert (bool(answer.warnings), not answer.allowed) == (warns, refuses)


def test_a_warning_names_the_numbers() -> None:
    answer = review(edit_for(*POOLS[:5]))
    (text,) = answer.warnings
    pools = "pool-0, pool-1, pool-2, pool-3, pool-4"
    assert text == f"YurtAppSet default/demo: this edit rolls 5 of 20 workloads, 15 pods (node pools {pools})"


def test_a_refusal_names_the_annotation_that_allows_the_edit() -> None:
    answer = review(edit_for("*"))
    assert (answer.allowed, answer.code) == (False, 403)
    assert answer.message.startswith(
        "YurtAppSet default/demo: this edit rolls 20 of 20 workloads, 60 pods (node pools pool-0, pool-1, pool-2, pool-3, "
        "pool-4 and 15 more), more than 50% of its workloads: to allow this edit and no other, set the annotation "
        f"{ALLOW_ANNOTATION}: 20-"
    )
    allowed = review(annotate(edit_for("*"), read_allowance(answer)))
    assert allowed.allowed
    assert "rolls 20 of 20" in allowed.warnings[0]


def test_the_annotation_of_a_former_edit_allows_no_other() -> None:
    value = read_allowance(review(edit_for("*")))
    stored = annotate(edit_for("*"), value)
    assert not review(annotate(edit_for("*", claim="nginx:4"), value), stored).allowed
    assert not review(annotate(OLD, value), stored).allowed
    assert not review(annotate(edit_for("*"), value), annotate(overrider(), value)).allowed


def test_the_annotation_allows_no_more_workloads_than_it_names() -> None:
    value = read_allowance(review(edit_for("*")))
    number, digest = value.split("-")
    assert not review(annotate(edit_for("*"), f"{int(number) - 1}-{digest}")).allowed
    assert review(annotate(edit_for("*"), f"{int(number) + 1}-{digest}")).allowed


@pytest.mark.parametrize(
    "value", ["", "true", "20", "20-", "-20-0123456789abcdef", "20-0123456789abcdeg", 20, None, {}]
)
def test_any_other_value_allows_nothing(value: Any) -> None:
    assert not review(annotate(edit_for("*"), value)).allowed


@pytest.mark.parametrize("new", [None, OLD])
def test_a_creation_and_a_deletion_are_guarded(new: Document | None) -> None:
    old = None if new is not None else OLD
    value = read_allowance(review(new, old))
    changed = new if new is not None else OLD
    given = (annotate(changed, value), None) if new is not None else (None, annotate(changed, value))
    assert review(*given).allowed


@pytest.mark.parametrize("name", ["namespace-controller", "generic-garbage-collector"])
def test_the_deletions_of_kubernetes_are_admitted(name: str) -> None:
    user = {"username": f"system:serviceaccount:kube-system:{name}"}
    assert review(None, OLD, userInfo=user) == Response(allowed=True)
    assert not review(None, OLD, userInfo={"username": "alice"}).allowed
    assert not review(edit_for("*"), OLD, userInfo=user).allowed


def test_the_deletion_with_its_subject_is_admitted() -> None:
    leaving = {**SET, "metadata": {**SET["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert review(None, OLD, subject=leaving).allowed
    assert review(None, OLD, subject=yurt_app_set("other")).allowed


def test_stale_objects_refuse_nothing() -> None:
    asked = request(edit_for("*"), "UPDATE", OLD, kind="YurtAppOverrider")
    asked.unread.append("no answer within 3 s")
    answer = validate_overrider(asked, store=store_of(SET, OLD), limits=REFUSE)
    assert answer.allowed
    assert answer.warnings[0].endswith("is not refused, because the objects may be out of date: no answer within 3 s")


def test_few_workloads_are_not_guarded() -> None:
    limits = REFUSE._replace(minimum=21)
    assert review(edit_for("*"), limits=limits) == Response(allowed=True)
    assert not review(edit_for("*"), limits=limits._replace(minimum=20)).allowed


def test_a_small_subject_is_not_compared() -> None:
    asked = request(edit_for("*"), "UPDATE", OLD, kind="YurtAppOverrider")
    for minimum, compares in ((20, True), (21, False)):
        work = guard_edit(asked, store=store_of(SET, OLD), limits=REFUSE._replace(minimum=minimum))
        assert (len(list(work)) > 2) == compares


def test_limits_of_one_switch_the_guard_off() -> None:
    assert review(edit_for("*"), limits=GuardLimits()) == Response(allowed=True)


def test_an_edit_of_a_label_is_admitted() -> None:
    assert review({**OLD, "metadata": {**OLD["metadata"], "labels": {"a": "b"}}}) == Response(allowed=True)


def test_a_scale_replaces_no_pods() -> None:
    answer = review(overrider(*OLD["entries"], entry("*", items=[{"replicas": 9}])))
    assert answer.allowed
    assert not any("this edit" in text for text in answer.warnings)


def test_the_overrider_in_effect_decides() -> None:
    older = overrider(name="older", creationTimestamp="2020-01-01T00:00:00Z")
    newer = {**OLD, "metadata": {**OLD["metadata"], "creationTimestamp": "2021-01-01T00:00:00Z"}}
    asked = request(None, "DELETE", newer, kind="YurtAppOverrider")
    assert validate_overrider(asked, store=store_of(SET, older, newer), limits=REFUSE).allowed
    asked = request(None, "DELETE", older, kind="YurtAppOverrider")
    assert not validate_overrider(asked, store=store_of(SET, older, newer), limits=REFUSE).allowed


@pytest.mark.parametrize(
    ("new", "rolls"),
    [
        ([image("nginx", "{{nodepool}}:2")], 19),
        ([image("nginx", "{{nodepool}}:3")], 20),
        ([{"annotations": {"a": "{{nodepool}}"}}], 20),
    ],
)
def test_texts_with_the_name_of_the_pool_are_compared_for_each_pool(new: Any, rolls: int) -> None:
    old = overrider(entry("*", items=[image("nginx", "pool-7:2")]))
    assert f"rolls {rolls} of 20 workloads" in review(overrider(entry("*", items=new)), old).message


def test_values_of_single_pools_are_compared_for_each_pool() -> None:
    def images(claim: str) -> Document:
        return overrider(
            *(entry(name, items=[image("nginx", claim.format(number))]) for number, name in enumerate(POOLS))
        )

    old = images("nginx:{}")
    new = copy.deepcopy(old)
    for number in range(12):
        new["entries"][number]["items"][0]["image"]["imageClaim"] = f"nginx:1.{number}"
    assert "rolls 12 of 20 workloads" in review(new, old).message


def test_tweaks_that_labels_select_are_known() -> None:
    subject = yurt_app_set_v1beta1(pools=POOLS[:2], replicas=2)
    pools = [node_pool(name) for name in POOLS[:2]]
    rule = overrider(entry("*", items=[image("nginx", "nginx:2")]))
    asked = request(rule, "CREATE", kind="YurtAppOverrider")
    answer = validate_overrider(asked, store=store_of(subject, *pools), limits=REFUSE)
    assert "rolls 2 of 2 workloads, 4 pods" in answer.message


def test_a_refused_overrider_is_not_predicted() -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/priority")]))
    answer = review(broken)
    assert answer.code == 422
    assert "rolls" not in answer.message


def test_the_allowance_does_not_depend_on_defaults_and_names() -> None:
    bare = copy.deepcopy(OLD)
    del bare["subject"]["apiVersion"]
    bare["metadata"]["generateName"] = bare["metadata"].pop("name")
    assert make_allowance(None, bare, 3) == make_allowance(None, OLD, 3)
    assert make_allowance(OLD, None, 3) != make_allowance(None, OLD, 3)
