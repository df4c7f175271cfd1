"""Every overrider route answers reviews of objects with a value of another type at any path."""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.store import Store
from fleethook.engines.overrider.admission.overrider_admission import default_overrider
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.model.admission import AdmissionRequest
from tests.builders import (
    entry,
    image,
    mutate_workload,
    node_pool,
    overrider,
    owner,
    patch,
    pod_template,
    pool,
    review,
    store_of,
    tweak,
    validate_overrider,
    validate_subject,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.worlds import EXAMPLES, OVERRIDERS, SUBJECTS
from tests.workload_samples import full_deployment

VALUES: list[Any] = [
    None, True, 1, 1.5, "x", [], [1], ["x"], [None], [{}], [[]], {}, {"x": 1}, {"x": None}, [{"name": {}}],
]  # fmt: skip
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}
SELECTOR = {"matchLabels": {"region": "east"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}
TEMPLATE = pod_template(affinity=AFFINITY, tolerations=[{"key": "a", "operator": "Exists"}])
POOL = node_pool("hangzhou", {"region": "east"}, taints=[{"key": "a", "effect": "NoSchedule"}])
DAEMON = yurt_app_daemon("demo", template=TEMPLATE)
EXAMPLE_SUBJECTS = (
    yurt_app_set(pools=[pool("hangzhou", nodeSelectorTerm=TERM, tolerations=[{"key": "p"}])], template=TEMPLATE),
    {**DAEMON, "spec": {**DAEMON["spec"], "nodepoolSelector": SELECTOR}},
    yurt_app_set_v1beta1(selector=SELECTOR, template=TEMPLATE, tweaks=[tweak(selector=SELECTOR, replicas=2)]),
)
RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2")], patches=[patch("add", "/spec/paused", True)]))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in members:
        yield from paths(inner, (*path, step))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    parent = made
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = copy.deepcopy(value)
    return made


def make_request(document: Any, group_version: str, kind: str, old: Any = None) -> AdmissionRequest:
    """Return a review of an object or of its update; the object may lack metadata."""
    group, _, version = group_version.rpartition("/")
    body = {
        "uid": "u-1", "operation": "CREATE" if old is None else "UPDATE", "namespace": "default", "name": "demo",
        "kind": {"group": group, "version": version, "kind": kind}, "object": document, "oldObject": old,
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(body), type=AdmissionRequest)


def make_openyurt_request(document: Any, like: Any, old: Any = None) -> AdmissionRequest:
    """Return a review of a subject or an overrider; `like` has its kind and version."""
    return make_request(document, like["apiVersion"], like["kind"], old)


def send_to_all_routes(reviewed: Any, right: Any, *, store: Store, before: Any) -> None:
    """Send reviews of the creation and the update of a workload, a subject and an overrider to every route."""
    mine, subject, rule = reviewed
    for old in ((None, None, None), before):
        mutate_workload(make_request(mine, "apps/v1", "Deployment", old[0]), store=store, plans=PlanCache())
        validate_subject(make_openyurt_request(subject, right[1], old[1]), store=store)
        default_overrider(make_openyurt_request(rule, right[2], old[2]))
        validate_overrider(make_openyurt_request(rule, right[2], old[2]), store=store)


WORLDS = st.one_of(
    st.sampled_from(EXAMPLE_SUBJECTS).map(lambda subject: (rule_of(subject), subject)),
    st.tuples(OVERRIDERS, SUBJECTS),
)


def rule_of(subject: Any) -> Any:
    bound = {"apiVersion": subject["apiVersion"], "kind": subject["kind"], "name": "demo"}
    return {**RULE, "subject": bound}


def workload_of(subject: Any, *, is_full: bool) -> Any:
    made = workload(owners=[owner(subject["kind"], apiVersion=subject["apiVersion"])])
    made["metadata"]["labels"]["apps.openyurt.io/pool-name"] = "hangzhou"
    template = full_deployment()["spec"]["template"] if is_full else copy.deepcopy(TEMPLATE)
    return {**made, "spec": {**made["spec"], "template": template}}


@settings(max_examples=EXAMPLES)
@given(world=WORLDS, place=st.data(), value=st.sampled_from(VALUES))
def test_a_value_of_another_type_at_any_path_is_answered(world: Any, place: Any, value: Any) -> None:
    rule, subject = world
    mine = workload_of(subject, is_full=place.draw(st.booleans()))
    right = (mine, subject, rule)
    number = place.draw(st.integers(0, 3))
    document = (*right, POOL)[number]
    chosen = place.draw(st.sampled_from(list(paths(document))))
    wrong: list[Any] = [*right, POOL]
    wrong[number] = with_value(document, chosen, value)
    send_to_all_routes(wrong[:3], right, store=store_of(rule, subject, POOL), before=right)
    send_to_all_routes(right, right, store=store_of(rule, subject, POOL), before=wrong[:3])
    # An apiserver has checked the metadata of stored objects.
    if chosen[0] not in ("apiVersion", "kind", "metadata"):
        send_to_all_routes(right, right, store=store_of(wrong[2], wrong[1], wrong[3]), before=right)


@pytest.mark.parametrize(
    ("terms", "found"),
    [(5, "Expected `array | null`, got `int`"), ([1], "got `int`"), ([{"matchExpressions": 1}], "got `int`")],
)
def test_a_workload_whose_affinity_has_a_wrong_type_is_denied_with_its_path(terms: Any, found: str) -> None:
    subject = EXAMPLE_SUBJECTS[0]
    mine = workload_of(subject, is_full=False)
    mine["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    answer = review(mine, subject, RULE)
    assert not answer.allowed
    assert f"{REQUIRED}.nodeSelectorTerms" in answer.message
    assert found in answer.message
    kept = review(mine, subject, RULE, operation="UPDATE", old=mine)
    assert (kept.allowed, len(kept.warnings)) == (True, 1), "an update of something else is never blocked"
