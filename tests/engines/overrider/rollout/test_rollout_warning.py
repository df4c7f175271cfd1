"""Warnings of admission about edits that roll many workloads."""

from collections.abc import Sequence
from typing import Any

import pytest

from fleethook.engines.overrider.rollout.rollout_warning import Edit, EditEffects, predict_edit
from fleethook.engines.overrider.subject.subject_and_pools import Subject
from fleethook.model.admission import Response
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    entry,
    image,
    overrider,
    patch,
    pod_template,
    pool,
    request,
    store_of,
    validate_overrider,
    yurt_app_set,
)

Document = dict[str, Any]
POOLS = [f"pool-{number}" for number in range(20)]
SET = yurt_app_set(pools=[pool(name, 3) for name in POOLS])
SHARE = 0.5
PAIR = ("hangzhou", "beijing")
OLD = overrider(entry("*", items=[image("nginx", "nginx:2")]))


def edit_for(*pools: str, claim: str = "nginx:3") -> Document:
    return overrider(*OLD["entries"], entry(*pools, items=[image("nginx", claim)]))


def review(
    new: Document | None,
    old: Document | None = OLD,
    *,
    share: float = SHARE,
    subject: Document = SET,
    **given: Any,
) -> Response:
    operation = "DELETE" if new is None else "UPDATE" if old is not None else "CREATE"
    asked = request(new, operation, old, kind="YurtAppOverrider", **given)
    stored = [] if old is None else [old]
    return validate_overrider(asked, store=store_of(subject, *stored), warning_share=share)


@pytest.mark.parametrize(("number", "warns"), [(10, False), (11, True)])
def test_the_share_of_workloads_decides(number: int, warns: Any) -> None:
    answer = review(edit_for(*POOLS[:number]))
    assert answer.allowed
    assert bool(answer.warnings) == warns


@pytest.mark.parametrize(("number", "warns"), [(9, False), (10, True)])
def test_few_workloads_are_not_reported(number: int, warns: Any) -> None:
    assert bool(review(edit_for(*POOLS[:number]), share=0.2).warnings) == warns


def test_a_warning_names_the_numbers() -> None:
    (text,) = review(edit_for("*")).warnings
    assert text == (
        "YurtAppSet default/demo: this edit rolls 20 of 20 workloads, 60 pods (node pools pool-0, pool-1, pool-2, pool-3, "
        "pool-4 and 15 more)"
    )


@pytest.mark.parametrize("new", [None, OLD])
def test_a_creation_and_a_deletion_are_reported(new: Document | None) -> None:
    assert "rolls 20 of 20" in review(new, OLD if new is None else None).warnings[0]


@pytest.mark.parametrize("name", ["namespace-controller", "generic-garbage-collector"])
def test_the_deletions_of_kubernetes_are_not_reported(name: str) -> None:
    user = {"username": f"system:serviceaccount:kube-system:{name}"}
    assert review(None, OLD, userInfo=user) == Response(allowed=True)
    assert review(None, OLD, userInfo={"username": "alice"}).warnings
    assert review(edit_for("*"), OLD, userInfo=user).warnings


def test_the_deletion_with_its_subject_is_not_reported() -> None:
    leaving = {**SET, "metadata": {**SET["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not review(None, OLD, subject=leaving).warnings
    assert not review(None, OLD, subject=yurt_app_set("other")).warnings


def test_a_share_of_one_reports_nothing() -> None:
    assert review(edit_for("*"), share=1.0) == Response(allowed=True)


def test_a_scale_replaces_no_pods() -> None:
    answer = review(overrider(*OLD["entries"], entry("*", items=[{"replicas": 9}])))
    assert answer.allowed
    assert not any("this edit" in text for text in answer.warnings)


def test_the_overrider_in_effect_decides() -> None:
    older = overrider(name="older", creationTimestamp="2020-01-01T00:00:00Z")
    newer = {**OLD, "metadata": {**OLD["metadata"], "creationTimestamp": "2021-01-01T00:00:00Z"}}
    asked = request(None, "DELETE", newer, kind="YurtAppOverrider")
    assert validate_overrider(asked, store=store_of(SET, older, newer), warning_share=SHARE).warnings == ()
    asked = request(None, "DELETE", older, kind="YurtAppOverrider")
    assert validate_overrider(asked, store=store_of(SET, older, newer), warning_share=SHARE).warnings


@pytest.mark.parametrize(
    ("new", "rolls"),
    [
        ([image("nginx", "{{nodepool}}:2")], 19),
        ([image("nginx", "{{nodepool}}:3")], 20),
        ([image("nginx", "{{nodepool}}-2")], 20),
    ],
)
def test_texts_with_the_name_of_the_pool_are_compared_for_each_pool(new: Any, rolls: int) -> None:
    old = overrider(entry("*", items=[image("nginx", "pool-7:2")]))
    assert f"rolls {rolls} of 20 workloads" in review(overrider(entry("*", items=new)), old).warnings[0]


def test_a_refused_overrider_is_not_predicted() -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/priority")]))
    answer = review(broken)
    assert answer.code == 422
    assert "rolls" not in answer.message


def effects(subject: Document, old: Document | None, new: Document | None, pools: Sequence[str] = PAIR) -> EditEffects:
    return predict_edit(Edit(Subject(YURT_APP_SET, subject, ""), old, new, pools, {}))


@pytest.mark.parametrize(("number", "uncompared"), [(300, 0), (600, 300)])
def test_plans_beyond_the_limit_count_as_rolling(number: int, uncompared: int) -> None:
    """Each node pool has a patch of its own, so none shares a plan with another."""
    annotations = {f"note-{number}": "x" for number in range(400)}
    template = {**pod_template(), "metadata": {"labels": {"app": "demo"}, "annotations": annotations}}
    names = [f"pool-{number}" for number in range(number)]
    pools = [pool(name, patch={"spec": {"minReadySeconds": number}}) for number, name in enumerate(names)]
    old = overrider(entry("*", items=[image("nginx", "nginx:1")]))
    same = overrider(*old["entries"], entry("other", items=[{"replicas": 3}]))
    found = effects(yurt_app_set(pools=pools, template=template), old, same, names)
    assert abs(found.uncompared - uncompared) < 30
    assert found.rolls == found.uncompared
    if found.uncompared:
        assert found.text.endswith(f", of which {found.uncompared} were not compared and may not roll)")


def test_a_huge_template_is_not_compared() -> None:
    annotations = {f"note-{number}": "x" for number in range(60_000)}
    subject = yurt_app_set(template={**pod_template(), "metadata": {"annotations": annotations}})
    found = effects(subject, None, overrider())
    assert (found.rolls, found.uncompared) == (2, 2)
