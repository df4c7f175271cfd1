"""Compiled policies have the result of the webhook, on a real kube-apiserver.

    POLICY_EXAMPLES=1500 .venv/bin/python -m pytest tests/e2e/test_policies.py -n 0 -s

draws enough random worlds that some 500 overriders are compared, and prints their share and the refusals.
"""

import copy
import os
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fleethook.engines.overrider.render.undo import UNDO_ANNOTATION
from fleethook.model.openyurt import PARTIAL_SUFFIX, RENDERED_ANNOTATION
from fleethook.patch import apply
from tests.builders import (
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    tweak,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.e2e.cluster import Api, RefusedError
from tests.e2e.policies import Plane, World, comparable, in_namespace, renders, workloads_path
from tests.e2e.policy_examples import Variants, batches, draw_examples
from tests.waiting import wait_for

EXAMPLES = int(os.environ.get("POLICY_EXAMPLES", "120"))
BATCH = 40
SPEC = "/spec/template/spec"
CASES = yaml.safe_load((Path(__file__).parents[1] / "conformance" / "overrider.yaml").read_text())


@pytest.fixture(scope="module")
def prefix() -> str:
    return f"p-{uuid.uuid4().hex[:6]}"


@pytest.fixture(scope="module")
def policies(admin: Api, prefix: str) -> Plane:
    return Plane(admin, make_namespace(admin, f"{prefix}-plain"))


def make_namespace(admin: Api, name: str) -> str:
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def world(request: pytest.FixtureRequest, admin: Api, policies: Plane, prefix: str) -> Iterator[World]:
    """The parametrized world in a namespace of its own, with its policies."""
    subject, rule, pools = request.param
    made = in_namespace(make_namespace(admin, f"{prefix}-{uuid.uuid4().hex[:6]}"), subject, rule, pools)
    compilation = made.compile()
    assert compilation.compiles, compilation.refusals
    policies.install([(made, compilation)])
    yield made
    policies.uninstall([(made, compilation)])


def compare_creation(policies: Plane, world: World, document: dict[str, Any]) -> None:
    expected = policies.default(world.by_webhook(policies.default(document)))
    assert comparable(policies.create(document)) == comparable(expected)


def compare_update(policies: Plane, world: World, stored: dict[str, Any], document: dict[str, Any]) -> None:
    expected = policies.default(world.by_webhook(policies.default(document), stored))
    assert comparable(update(policies, document)) == comparable(expected)


def update(policies: Plane, document: dict[str, Any], **query: str) -> dict[str, Any]:
    path = f"{workloads_path(document)}/{document['metadata']['name']}"
    status, answer, _ = policies.api.call("PUT", path, document, **(query or {"dryRun": "All"}))
    if status >= 300:
        raise RefusedError(status, answer)
    return dict(answer)


def compare_all(policies: Plane, world: World, variants: Variants) -> None:
    """Compare creations, and updates by a client that keeps the annotations or loses them."""
    for document in variants:
        compare_creation(policies, world, document)
    stored = policies.api.create(workloads_path(variants.foreign), variants.foreign)
    compare_update(policies, world, stored, stored)
    for written in (variants.foreign, variants.reordered):
        back = {**copy.deepcopy(stored), "spec": copy.deepcopy(written["spec"])}
        compare_update(policies, world, stored, back)
        back["metadata"]["annotations"] = copy.deepcopy(written["metadata"].get("annotations") or {})
        compare_update(policies, world, stored, back)


def is_accepted(policies: Plane, world: World, variants: Variants) -> bool:
    """Return whether kube-apiserver accepts the workloads and the webhook's results at all: many templates are random."""
    try:
        for document in variants:
            policies.default(world.by_webhook(policies.default(document)))
    except RefusedError:
        return False
    return True


def test_random_overriders_have_the_result_of_the_webhook(policies: Plane, admin: Api, prefix: str) -> None:
    examples = draw_examples(EXAMPLES, prefix)
    usable = [one for one in examples if is_accepted(policies, one.world, one.variants)]
    compiled = [(one, one.world.compile()) for one in usable]
    refusals = Counter(one.reason for _, compilation in compiled for one in compilation.refusals)
    chosen = [(one, compilation) for one, compilation in compiled if compilation.objects]
    sys.stdout.write(f"\n{len(chosen)} of {len(usable)} overriders compile; refusals: {dict(refusals)}\n")
    assert len(chosen) >= EXAMPLES / 10
    assert len(chosen) >= 0.9 * len(usable)
    for batch in batches(chosen, BATCH):
        for example, _ in batch:
            make_namespace(admin, example.world.namespace)
        worlds = [(example.world, compilation) for example, compilation in batch]
        policies.install(worlds)
        for example, _ in batch:
            compare_all(policies, example.world, example.variants)
        policies.uninstall(worlds)


IMAGE = image("nginx", "registry.example.org/{{nodepool}}/nginx:2")
ADDED = {"env": {"containerName": "nginx", "env": [{"name": "POOL", "value": "{{nodepool}}"}]}}
NOTE = patch("add", "/metadata/annotations/note", "n")
SIDE = patch("add", f"{SPEC}/containers/-", container("side", "side:1"))
RULE = overrider(entry("*", items=[IMAGE, ADDED, {"replicas": 5}], patches=[SIDE, NOTE]))
EDGE = {"spec": {"template": {"spec": {"containers": [container("edge", "edge:1")]}}}}
TAINT = {"key": "edge", "effect": "NoSchedule"}
ENV = [{"name": f"E{number}", "value": str(number)} for number in range(60)]
PORTS = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}, {"containerPort": 80, "name": "web"}]
KINDS = {
    "deployment": (yurt_app_set(), RULE, {"hangzhou": None, "beijing": None}),
    "several containers": (
        yurt_app_set(template=pod_template(containers=[container(), container("second")])),
        overrider(entry("*", items=[IMAGE], patches=[SIDE, patch("add", f"{SPEC}/containers/-", container("last"))])),
        {"hangzhou": None},
    ),
    "stateful set": (yurt_app_set(kind="StatefulSet", serviceName="demo"), RULE, {"hangzhou": None}),
    "pool with a patch": (yurt_app_set(pools=[pool("hangzhou", patch=EDGE)]), RULE, {"hangzhou": None}),
    "daemon": (
        yurt_app_daemon(),
        overrider(entry("*", items=[IMAGE, ADDED]), subject={"kind": "YurtAppDaemon", "name": "agent"}),
        {"hangzhou": node_pool("hangzhou", taints=[TAINT])},
    ),
    "v1beta1": (
        yurt_app_set_v1beta1(pools=["hangzhou"], tweaks=[tweak("hangzhou", replicas=3)]),
        RULE,
        {"hangzhou": node_pool("hangzhou")},
    ),
    "long lists": (
        yurt_app_set(
            template=pod_template(
                containers=[container(name, env=ENV, ports=PORTS) for name in ("nginx", "second", "third")],
                volumes=[{"name": f"v{number}", "emptyDir": {}} for number in range(10)],
            )
        ),
        overrider(
            entry("*", items=[IMAGE, ADDED], patches=[SIDE, patch("replace", f"{SPEC}/containers/1/env/30/value", "x")])
        ),
        {"hangzhou": None},
    ),
    "values of one pool": (
        yurt_app_set(),
        overrider(entry("hangzhou", items=[image("nginx", "a:1")]), entry("beijing", items=[{"replicas": 4}, IMAGE])),
        {"hangzhou": None, "beijing": None},
    ),
}


@pytest.mark.parametrize("world", KINDS.values(), ids=KINDS.keys(), indirect=True)
def test_each_kind_of_subject(policies: Plane, world: World) -> None:
    for name in world.pools:
        bare = world.bare(name)
        foreign = copy.deepcopy(bare)
        pods = foreign["spec"]["template"]["spec"]
        pods["containers"].insert(0, container("mesh", "mesh:1"))
        pods["containers"][1].setdefault("env", []).insert(0, {"name": "MESH", "value": "1"})
        reordered = copy.deepcopy(foreign)
        reordered["spec"]["template"]["spec"]["containers"].reverse()
        compare_all(policies, world, Variants(bare, foreign, reordered))


def conformance_worlds() -> Iterator[Any]:
    """Yield the subjects of the table with each of its overriders."""
    fixtures = CASES["fixtures"]
    for name, rule in fixtures.items():
        if "entries" not in rule:
            continue
        for subject, pools in (("yas_default", None), ("yad_default", fixtures["nodepool_default"])):
            kind, made = fixtures[subject]["kind"], copy.deepcopy(rule)
            made |= {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppOverrider"}
            made["subject"] = {"kind": kind, "name": fixtures[subject]["metadata"]["name"]}
            yield pytest.param((fixtures[subject], made, {"nodepool-test": pools}), id=f"{name}-{subject}")


def has_policy(made: Any) -> bool:
    """Return whether an overrider of the table changes its node pool, and all its entries compile."""
    return bool(in_namespace("any", *made).compile().objects)


WORLDS = [*conformance_worlds()]


@pytest.mark.parametrize("made", [one for one in WORLDS if not has_policy(one.values[0])])
def test_an_overrider_of_the_conformance_table_without_a_policy_has_a_reason(made: Any) -> None:
    world = in_namespace("any", *made)
    assert world.compile().refusals or not renders(world)


@pytest.mark.parametrize("made", [one for one in WORLDS if has_policy(one.values[0])])
def test_the_overriders_of_the_conformance_table(made: Any, admin: Api, policies: Plane, prefix: str) -> None:
    world = in_namespace(f"{prefix}-{uuid.uuid4().hex[:6]}", *made)
    compilation = world.compile()
    make_namespace(admin, world.namespace)
    policies.install([(world, compilation)])
    compare_creation(policies, world, world.bare("nodepool-test"))
    policies.uninstall([(world, compilation)])


ONE = [KINDS["deployment"]]


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_a_workload_of_another_owner_or_pool_stays(policies: Plane, world: World) -> None:
    other = world.bare("hangzhou")
    other["metadata"]["ownerReferences"][0]["name"] = "other"
    unknown = world.bare("hangzhou")
    unknown["metadata"]["labels"]["apps.openyurt.io/pool-name"] = "unknown"
    for document in (other, unknown):
        assert comparable(policies.create(document)) == comparable(policies.default(document))


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_a_value_of_another_client_is_left_to_the_webhook(policies: Plane, world: World) -> None:
    document = world.bare("hangzhou")
    document["metadata"]["annotations"]["note"] = "mine"
    made = policies.create(document)
    assert made["metadata"]["annotations"]["note"] == "mine"
    assert RENDERED_ANNOTATION not in made["metadata"]["annotations"]
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.org/hangzhou/nginx:2"
    completed = policies.default(world.by_webhook(made))
    assert comparable(completed) == comparable(policies.default(world.by_webhook(policies.default(document))))


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_a_change_of_the_template_gets_the_overrides_and_is_marked_as_partial(policies: Plane, world: World) -> None:
    document = world.bare("hangzhou")
    document["spec"]["template"]["spec"]["containers"][0] |= {"image": "nginx:new"}
    document["metadata"]["annotations"]["apps.openyurt.io/patch"] = "changed"
    made = policies.create(document)
    assert made["metadata"]["annotations"][RENDERED_ANNOTATION].endswith(PARTIAL_SUFFIX)
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.org/hangzhou/nginx:2"
    assert made["metadata"]["annotations"]["apps.openyurt.io/patch"] == "changed"


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_the_undo_of_another_render_is_kept(policies: Plane, world: World) -> None:
    bare = world.bare("hangzhou")
    bare["metadata"]["labels"]["apps.openyurt.io/pool-name"] = "unknown"
    bare["metadata"]["annotations"] |= {RENDERED_ANNOTATION: "former", UNDO_ANNOTATION: '{"spec":{"paused":null}}'}
    stored = policies.api.create(workloads_path(bare), bare)
    document = {**stored, "spec": world.bare("hangzhou")["spec"]}
    document["metadata"] = {**stored["metadata"], "labels": world.bare("hangzhou")["metadata"]["labels"]}
    document["metadata"]["annotations"] = {}
    made = update(policies, document)
    assert made["metadata"]["annotations"][UNDO_ANNOTATION] == '{"spec":{"paused":null}}'
    assert made["metadata"]["annotations"][RENDERED_ANNOTATION] == "former"
    assert made["spec"]["replicas"] == 5


@pytest.mark.parametrize("world", ONE, indirect=True)
@pytest.mark.parametrize("value", [None, "other"])
def test_an_update_cannot_change_a_label_that_selects_a_workload(
    policies: Plane, world: World, value: str | None
) -> None:
    stored = policies.api.create(workloads_path(world.bare("hangzhou")), world.bare("hangzhou"))
    kept = {**stored, "spec": world.bare("hangzhou")["spec"]}
    written = copy.deepcopy(kept)
    del written["metadata"]["labels"]["app"]
    if value is not None:
        written["metadata"]["labels"]["app"] = value
    assert comparable(update(policies, written)) == comparable(update(policies, kept))
    compare_update(policies, world, stored, kept)


@pytest.mark.parametrize("world", [KINDS["v1beta1"]], indirect=True)
def test_an_update_without_the_mark_of_openyurt_gets_the_overrides(policies: Plane, world: World) -> None:
    stored = policies.api.create(workloads_path(world.bare("hangzhou")), world.bare("hangzhou"))
    written = {**stored, "spec": world.bare("hangzhou")["spec"]}
    written["metadata"] = copy.deepcopy(stored["metadata"])
    del written["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"]
    compare_update(policies, world, stored, written)


def count_runs(policies: Plane, world: World) -> float:
    """Return how often kube-apiserver has run the mutation of the policies of a world."""
    names = {one["metadata"]["name"] for one in world.compile().objects}
    text: str = policies.api.call("GET", "/metrics")[1]
    families = {one.name: one for one in text_string_to_metric_families(text)}
    samples = families["apiserver_mutating_admission_policy_check"].samples
    return sum(one.value for one in samples if one.name.endswith("_total") and one.labels["policy"] in names)


def change(document: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = apply(document, [{"op": "add", "path": pointer, "value": value}])
    return changed


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_an_update_runs_a_policy_only_if_it_changes_a_member_of_the_plan(policies: Plane, world: World) -> None:
    made = world.bare("hangzhou")
    stored = policies.api.create(workloads_path(made), made)
    begun = count_runs(policies, world)
    # A creation runs it twice: kube-apiserver repeats all mutations after a change.
    assert begun >= 2
    update(policies, stored)
    update(policies, change(stored, "/spec/minReadySeconds", 5))
    assert count_runs(policies, world) == begun
    container = f"{SPEC}/containers/0"
    for pointer, value in (
        (f"{container}/image", "nginx:mine"),
        (f"{container}/env", []),
        (f"{SPEC}/containers/-", {"name": "foreign", "image": "foreign:1"}),
        ("/spec/replicas", 9),
        ("/metadata/labels/app", "mine"),
        ("/metadata/annotations/fleethook.io~1rendered", "0" * 16),
        ("/metadata/annotations/fleethook.io~1undo", "{}"),
    ):
        begun = count_runs(policies, world)
        compare_update(policies, world, stored, change(stored, pointer, value))
        assert count_runs(policies, world) > begun, pointer


def test_5000_pools_are_divided_among_policies(policies: Plane, admin: Api, prefix: str) -> None:
    names = [f"p{number}" for number in range(5_000)]
    rule = overrider(*(entry(name, items=[image("nginx", f"registry.example.org/nginx:{name}")]) for name in names))
    namespace = make_namespace(admin, f"{prefix}-5000")
    world = in_namespace(namespace, yurt_app_set(pools=[pool(name) for name in names]), rule, dict.fromkeys(names))
    compilation = world.compile()
    policies.install([(world, compilation)])
    for name in ("p0", "p777", "p4999"):
        wait_for(lambda name=name: is_rendered(policies, world, name), what=f"the policy of {name} is active")
        compare_creation(policies, world, world.bare(name))
    policies.uninstall([(world, compilation)])


def is_rendered(policies: Plane, world: World, name: str) -> bool:
    made = policies.create(world.bare(name))
    return RENDERED_ANNOTATION in made["metadata"].get("annotations", {})


def test_kube_apiserver_refuses_an_expression_above_the_limit(policies: Plane, admin: Api, prefix: str) -> None:
    """The limit of the compiler is that of kube-apiserver."""
    from fleethook.engines.overrider.policies.compiler import MAX_EXPRESSION  # noqa: PLC0415 - only this test reads it

    template = pod_template()
    world = in_namespace(f"{prefix}-limit", yurt_app_set(template=template), RULE, {"hangzhou": None})
    policy, _ = world.compile().objects
    long = '"' + "x" * (MAX_EXPRESSION - 2) + '"'
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/{policy['metadata']['name']}"
    policy["spec"]["variables"].append({"name": "long", "expression": long})
    admin.apply(path, policy)
    admin.delete(path)
    policy["spec"]["variables"][-1]["expression"] = long.replace("x", "xx", 1)
    with pytest.raises(RefusedError, match="exceeds limit"):
        admin.apply(path, policy)
