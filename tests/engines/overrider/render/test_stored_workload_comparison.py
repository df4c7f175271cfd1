"""Tests of the differences between a requested and a stored workload, and of their significance."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.list_elements_and_order import ABSENT
from fleethook.engines.overrider.render.stored_workload_comparison import (
    NO_DRIFT,
    Drift,
    MemberDifference,
    detect_drift,
    find_changes,
    find_differences,
    fingerprint,
)
from tests.builders import container, entry, image, overrider, rendered, store_of, workload, yurt_app_set
from tests.hypothesis_profiles import examples

POD = "/spec/template/spec"


def deployment(**pod_spec: Any) -> dict[str, Any]:
    made = workload()
    made["spec"]["template"]["spec"].update(pod_spec)
    return made


def pointers(stored: dict[str, Any], requested: dict[str, Any], **how: Any) -> list[str]:
    return [one.pointer for one in find_differences(stored, requested, **how)]


def containers(**fields: Any) -> dict[str, Any]:
    return deployment(containers=[container(**fields)])


@pytest.mark.parametrize(
    ("stored", "requested"),
    [
        ("500m", "0.5"),
        ("1", "1000m"),
        ("1Gi", "1024Mi"),
        ("2", 2),
        ("500m", 0.5),
    ],
)
def test_quantities_are_compared_by_value(stored: Any, requested: Any) -> None:
    for part in ("limits", "requests"):
        one, other = ({"resources": {part: {"cpu": amount}}} for amount in (stored, requested))
        assert not pointers(containers(**one), containers(**other))
    assert not pointers(deployment(overhead={"cpu": stored}), deployment(overhead={"cpu": requested}))


def test_other_quantities_and_strings_like_quantities_differ() -> None:
    one, other = (containers(resources={"limits": {"cpu": cpu}}) for cpu in ("1", "2"))
    assert pointers(one, other) == [f"{POD}/containers/0/resources/limits/cpu"]
    one, other = (containers(env=[{"name": "HALF", "value": text}]) for text in ("500m", "0.5"))
    assert pointers(one, other) == [f"{POD}/containers/0/env/0/value"]
    one, other = (containers(resources={"limits": {"cpu": cpu}}) for cpu in ("much", "1"))
    assert pointers(one, other) == [f"{POD}/containers/0/resources/limits/cpu"]


def test_elements_are_compared_by_their_merge_key() -> None:
    injected = deployment(containers=[container("istio", "istio:1"), container(image="nginx:2.0")])
    wanted = deployment(containers=[container("istio", "istio:1"), container(image="nginx:3.0")])
    (found,) = find_differences(injected, wanted)
    assert found == MemberDifference(
        f"{POD}/containers/1/image",
        ("spec", "template", "spec", "containers", "[name=nginx]", "image"),
        "nginx:3.0",
        "nginx:2.0",
    )
    alone = find_differences(containers(image="nginx:2.0"), containers(image="nginx:3.0"))
    assert alone[0].address == found.address
    assert fingerprint(alone) == fingerprint([found])


def test_missing_and_additional_elements_have_their_own_pointers() -> None:
    one = deployment(containers=[container(), container("old")])
    other = deployment(containers=[container(), container("new")])
    assert [(each.pointer, each.requested is ABSENT, each.stored is ABSENT) for each in find_differences(one, other)] == [
        (f"{POD}/containers/1", False, True), (f"{POD}/containers/1", True, False),
    ]  # fmt: skip


def test_another_order_of_elements_is_a_difference() -> None:
    one = deployment(initContainers=[container("a"), container("b")])
    other = deployment(initContainers=[container("b"), container("a")])
    assert pointers(one, other) == [f"{POD}/initContainers"]
    assert not pointers(one, other, leaves=True)


@pytest.mark.parametrize(
    ("stored", "requested", "matters"),
    [
        (deployment(), deployment(hostNetwork=False), False),
        (deployment(), deployment(securityContext={}), False),
        (deployment(), deployment(volumes=[]), False),
        (deployment(), deployment(securityContext={"seLinuxOptions": {"level": ""}}), False),
        (deployment(dnsPolicy="ClusterFirst"), deployment(), False),
        (deployment(dnsPolicy="ClusterFirst"), deployment(dnsPolicy=""), False),
        (deployment(), deployment(hostNetwrok=True), True),
        (deployment(), deployment(securityContext={"runAsUsr": 1}), True),
        (containers(image="theirs:1"), containers(image="ours:1"), True),
        (deployment(containers=[container(), container("back")]), deployment(), True),
    ],
)
def test_defaults_and_empty_values_do_not_matter(stored: Any, requested: Any, matters: bool) -> None:
    (found,) = find_differences(stored, requested)
    assert found.insignificant is not matters


def test_different_differences_have_different_fingerprints() -> None:
    base = MemberDifference("/a", ("a",), 1, 2)
    others = [base._replace(address=("b",)), base._replace(requested=3), base._replace(stored=3)]
    others += [base._replace(stored=ABSENT), base._replace(requested=ABSENT), base._replace(stored=None)]
    assert len({fingerprint([one]) for one in [base, *others]}) == 7
    assert fingerprint([base, others[0]]) == fingerprint([others[0], base])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON), st.booleans())
def test_equal_objects_have_no_difference_and_others_have_one(stored: Any, requested: Any, leaves: bool) -> None:
    found = find_differences(stored, requested, leaves=leaves)
    if not leaves:
        assert bool(found) is (without_nulls(stored) != without_nulls(requested))
    assert not find_differences(requested, copy.deepcopy(requested), leaves=leaves)


STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


@pytest.mark.parametrize(
    "stored",
    [
        containers(terminationMessagePath="/dev/termination-log"),
        containers(imagePullPolicy="Always"),
        deployment(terminationGracePeriodSeconds=30, containers=[container()]),
        deployment(securityContext={}, nodeSelector={}, tolerations=[], containers=[container()]),
        {**containers(), "spec": {**containers()["spec"], "strategy": STRATEGY}},
    ],
)
def test_a_default_that_a_write_drops_is_stored_again(stored: dict[str, Any]) -> None:
    assert find_differences(stored, containers())
    assert find_changes(stored, containers()) == ()


def test_a_dropped_value_that_is_no_default_counts() -> None:
    (change,) = find_changes(deployment(terminationGracePeriodSeconds=60), deployment())
    assert change.pointer == f"{POD}/terminationGracePeriodSeconds"


def test_an_empty_node_affinity_of_openyurt_is_no_change() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    empty = deployment(affinity={"nodeAffinity": required})
    assert find_changes(empty, deployment()) == find_changes(deployment(), empty) == ()


RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def find_drift(document: dict[str, Any], *objects: dict[str, Any]) -> Drift:
    return detect_drift(document, kind="Deployment", store=store_of(*objects), plans=PlanCache())


def test_a_rendered_workload_has_no_drift() -> None:
    assert find_drift(rendered(workload(), yurt_app_set(), RULE), yurt_app_set(), RULE) == NO_DRIFT


def test_the_drift_of_an_edit_has_its_path() -> None:
    edited = rendered(workload(), yurt_app_set(), RULE)
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "edited:9"
    assert find_drift(edited, yurt_app_set(), RULE).pointers == ("/spec/template/spec/containers/0/image",)


def test_a_workload_that_is_being_deleted_has_no_drift() -> None:
    going = workload()
    going["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
    assert find_drift(going, yurt_app_set(), RULE) == NO_DRIFT


@pytest.mark.parametrize(
    ("written", "stored", "same"),
    [("0.5", "500m", True), ("1000m", "1", True), ("1024Mi", "1Gi", True), ("1", "2", False)],
)
def test_equal_quantities_are_no_drift(written: str, stored: str, same: bool) -> None:
    resources = {"limits": {"cpu": written}}
    subject = yurt_app_set(template={"metadata": {}, "spec": {"containers": [container(resources=resources)]}})
    kept = rendered(workload(), subject, RULE)
    kept["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": stored}}
    assert find_drift(kept, subject, RULE).is_in_sync is same
