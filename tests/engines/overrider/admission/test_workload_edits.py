"""Tests of the warnings about edits that a render replaces."""

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleethook.patch import apply, parse_pointer
from tests.builders import (
    container,
    entry,
    image,
    overrider,
    owner,
    pod_spec,
    pod_template,
    pool,
    rendered,
    review,
    workload,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.render.test_undo_and_annotations import NGINX, PROPERTY, plan_of, with_sidecar
from tests.engines.overrider.worlds import OVERRIDERS, SUBJECTS, stored_by_owner

_IDENTIFYING = {"name", "containerPort", "protocol", "key", "effect", "operator"}


def edit_like_a_user(document: dict[str, Any], draw: Any) -> None:
    """Set, remove or add a member of the pods at a random place."""
    places: list[tuple[Any, Any]] = []
    pending: list[Any] = [document["spec"]["template"]["spec"], document["spec"]["template"]["metadata"]["labels"]]
    while pending:
        value = pending.pop()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in _IDENTIFYING:
                places.append((value, key))
            if isinstance(inner, (dict, list)):
                pending.append(inner)
    value, key = draw(st.sampled_from(places))
    if isinstance(value[key], str) and draw(st.booleans()):
        value[key] = "theirs"
    elif isinstance(value[key], dict) and draw(st.booleans()):
        value[key]["theirs"] = "1"
    elif not (isinstance(value, list) and len(value) == 1) and key != "containers":
        del value[key]


def list_leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return the values of a document by their place, with the elements of lists by name."""
    if isinstance(value, dict) and value:
        return {
            place: leaf for name, inner in value.items() for place, leaf in list_leaves(inner, (*path, name)).items()
        }
    if isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
        made = {f"[name={one['name']}]": one for one in value}
        return {
            place: leaf for name, inner in made.items() for place, leaf in list_leaves(inner, (*path, name)).items()
        }
    return {} if value in ({}, []) else {path: value}


@PROPERTY
@given(SUBJECTS, OVERRIDERS, st.data())
def test_each_edit_that_a_review_replaces_is_a_warning_and_no_other(subject: Any, rule: Any, data: Any) -> None:
    plan = plan_of(subject, rule)
    assume(plan.steps)
    written = stored_by_owner(plan.create.bare)
    stored = rendered(written, subject, rule, operation="UPDATE", old=written)
    asked = copy.deepcopy(stored)
    for _ in range(data.draw(st.integers(1, 3))):
        edit_like_a_user(asked, data.draw)
    answer = review(asked, subject, rule, operation="UPDATE", old=stored)
    assume(answer.allowed and not any("and others" in one for one in answer.warnings))
    before, wanted, made = (list_leaves(one["spec"], ("spec",)) for one in (stored, asked, apply(asked, answer.patch)))
    lost = {place for place in {*before, *wanted, *made} if before.get(place) != wanted.get(place) != made.get(place)}
    texts = [one.removeprefix("replaced: ").partition(": edit")[0] for one in answer.warnings if "replaced: " in one]
    pointers = [one for text in texts for one in text.split(", ") if one.startswith("/spec/")]
    warned = [tuple(parse_pointer(one)) for one in pointers]
    assert [one for one in lost if not any(is_around(place, one) for place in warned)] == []
    assert [place for place in warned if not any(is_around(place, one) for one in lost)] == []


def is_around(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def test_values_of_the_owners_controller_are_replaced_without_a_warning() -> None:
    subject, living = yurt_app_set(template=NGINX), with_sidecar()
    rule = overrider(entry("*", items=[image("nginx", "ours:1")]))
    first = rendered(living, subject, rule, operation="UPDATE", old=living)
    written = copy.deepcopy(first)
    pod_spec(written)["containers"][0]["image"] = "nginx:1"
    user = {"username": "system:serviceaccount:kube-system:yurt-manager"}
    assert review(written, subject, rule, operation="UPDATE", old=first, userInfo=user).warnings == ()


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"image": "two:2"}, "replaced: /spec/template/spec/containers/[name=two]/image: edit the owner or "),
        ({"args": ["x"]}, ""),
        ({"command": None}, "replaced: /spec/template/spec/containers/[name=two]/command: edit the owner or "),
        ({"image": "two:1"}, ""),
    ],
)
def test_a_value_that_the_template_restores_is_a_warning(change: dict[str, Any], warning: str) -> None:
    """Otherwise `kubectl set image two=…` succeeds and stores nothing."""
    two = container("two", image="two:1", command=["sh"])
    subject = yurt_app_set(template=pod_template(containers=[container(), two]))
    rule = overrider(entry("hangzhou", items=[image("nginx", "nginx:2")]))
    stored = rendered(workload(template=pod_template(containers=[container(), two])), subject, rule)
    edited = copy.deepcopy(stored)
    edited["spec"]["template"]["spec"]["containers"][1] |= change
    answer = review(edited, subject, rule, operation="UPDATE", old=stored)
    assert [one.startswith(warning) for one in answer.warnings] == [True] * bool(warning)


INITIAL = {"initialReplicas": 3}


LEAVE = {"leave": ["replicas"]}


@pytest.mark.parametrize(
    ("items", "created"),
    [
        ([INITIAL], 3),
        ([LEAVE], 2),
        ([{"replicas": 5}, LEAVE], 5),
        ([LEAVE, {"replicas": 5}], 5),
        ([{"replicas": 5}, INITIAL], 3),
        ([{"initialReplicas": 0}], 0),
    ],
)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_new_workload_gets_the_initial_replicas(items: list[Any], created: int, kind: str) -> None:
    subject = yurt_app_set(kind=kind)
    assert (
        rendered(workload(kind), subject, overrider(entry("*", items=items)), kind=kind)["spec"]["replicas"] == created
    )


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([INITIAL], True),
        ([LEAVE], True),
        ([{"replicas": 5}, LEAVE], True),
        ([{"replicas": 5}, INITIAL], True),
        ([LEAVE, {"replicas": 5}], False),
        ([INITIAL, image("nginx", "nginx:2")], True),
        ([image("nginx", "nginx:2")], None),
    ],
)
@pytest.mark.parametrize("subject", [yurt_app_set(), yurt_app_set_v1beta1(pools=["hangzhou"], replicas=2)])
def test_replicas_of_an_existing_workload_are_left(
    items: list[Any], kept: bool | None, subject: dict[str, Any]
) -> None:
    """The template has two replicas, which OpenYurt writes with each revision; an autoscaler has set seven."""
    owners = [owner(apiVersion=subject["apiVersion"])]
    objects = (subject, overrider(entry("*", items=items)))
    stored = rendered(workload(owners=owners), *objects)
    stored["spec"]["replicas"] = 7
    written = copy.deepcopy(stored)
    written["spec"] |= {"replicas": 2, "minReadySeconds": 1}
    expected = {True: 7, False: 5, None: 2}[kept]
    assert rendered(written, *objects, operation="UPDATE", old=stored)["spec"]["replicas"] == expected
    by_hand = copy.deepcopy(stored)
    by_hand["spec"]["replicas"] = 4
    answer = rendered(by_hand, *objects, operation="UPDATE", old=stored)
    assert answer["spec"]["replicas"] == (5 if kept is False else 4)
    # A touch of the leader changes nothing.
    touched = copy.deepcopy(stored)
    touched["metadata"]["annotations"]["LastOverrideTime"] = "now"
    assert rendered(touched, *objects, operation="UPDATE", old=stored)["spec"]["replicas"] == (
        5 if kept is False else 7
    )


def test_kept_replicas_are_told_to_the_writer() -> None:
    objects = (yurt_app_set(), overrider(entry("*", items=[INITIAL])))
    stored = rendered(workload(), *objects)
    written = copy.deepcopy(stored)
    written["spec"]["replicas"] = 2
    answer = review(written, *objects, operation="UPDATE", old=stored)
    (text,) = answer.warnings
    assert text == (
        "/spec/replicas: 2 is the number of the template, and 3 stays: entries[0].items[0] leaves the replicas to "
        "another owner; use kubectl scale to set this number"
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([{"replicas": 5}], [INITIAL], 7),
        ([INITIAL], [{"initialReplicas": 4}], 7),
        ([INITIAL], [image("nginx", "nginx:2")], 7),
        ([INITIAL], [{"replicas": 5}], 5),
        ([INITIAL], None, 7),
        ([{"replicas": 5}], [image("nginx", "nginx:2")], 2),
    ],
)
def test_an_edit_of_the_overrider_leaves_replicas(before: Any, after: Any, expected: int) -> None:
    subject = yurt_app_set()
    stored = rendered(workload(), subject, overrider(entry("*", items=before)))
    stored["spec"]["replicas"] = 7
    rules = [] if after is None else [overrider(entry("*", items=after))]
    found = rendered(copy.deepcopy(stored), subject, *rules, operation="UPDATE", old=stored)
    assert found["spec"]["replicas"] == expected


def test_without_replicas_in_the_template_zero_and_one_are_taken_for_openyurts() -> None:
    """OpenYurt 1.4 writes 0 if the topology has no number."""
    objects = (yurt_app_set(pools=[pool("hangzhou", None)]), overrider(entry("*", items=[INITIAL])))
    stored = rendered(workload(replicas=1), *objects)
    for number, expected in ((0, 3), (1, 3), (2, 2)):
        written = copy.deepcopy(stored)
        written["spec"]["replicas"] = number
        assert rendered(written, *objects, operation="UPDATE", old=stored)["spec"]["replicas"] == expected
