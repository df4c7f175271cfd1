"""Plans are shared by the pools of a subject, kept until an input changes, and evicted when the cache is full."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import (
    MAX_FILLED,
    FilledPlans,
    PlanCache,
    PoolPlan,
    SubjectPlans,
    same_input,
)
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.template_delta import Assign, ObjectDelta
from fleethook.engines.overrider.subject.subject_and_pools import is_v1beta1, tweaks_of
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from fleethook.patch import identical
from fleethook.workload_schema.pool_value_marks import POOL_MARK, REPLICAS_MARK, PoolValues
from tests.builders import (
    compile_plan,
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_spec,
    pool,
    store_of,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.engines.overrider.plan.test_plan_compilation_and_sharing import share
from tests.engines.overrider.worlds import EXAMPLES, OVERRIDERS, SPEC, SUBJECTS

RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
IN_POOL = {"key": "apps.openyurt.io/nodepool", "operator": "In"}


def plan(cache: PlanCache, subject: dict[str, Any], rule: dict[str, Any] | None, name: str = "hangzhou") -> PoolPlan:
    return cache.plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=name, cluster="", store=store_of())


@pytest.mark.parametrize(
    "changed",
    [
        {"status": {"readyReplicas": 3}},
        {"metadata": {**yurt_app_set()["metadata"], "resourceVersion": "7", "generation": 1, "managedFields": []}},
    ],
)
def test_a_changed_status_keeps_the_plan(changed: dict[str, Any]) -> None:
    cache = PlanCache()
    assert plan(cache, {**yurt_app_set(), **changed}, RULE) is plan(cache, yurt_app_set(), RULE)


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        (yurt_app_set(minReadySeconds=1), RULE),
        (yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:3.0")]))),
        (yurt_app_set(), None),
        ({**yurt_app_set(), "metadata": {**yurt_app_set()["metadata"], "uid": "another"}}, RULE),
        ({**yurt_app_set(), "metadata": {**yurt_app_set()["metadata"], "labels": {"a": "b"}}}, RULE),
    ],
)
def test_anything_else_makes_another(subject: dict[str, Any], rule: dict[str, Any] | None) -> None:
    cache = PlanCache()
    assert plan(cache, yurt_app_set(), RULE) is not plan(cache, subject, rule)


def pools(count: int) -> list[dict[str, Any]]:
    return [
        pool(f"p{n}", n, nodeSelectorTerm={"matchExpressions": [{**IN_POOL, "values": [f"p{n}"]}]})
        for n in range(count)
    ]


def test_pools_that_differ_by_name_and_replicas_share_a_plan() -> None:
    cache, subject = PlanCache(), yurt_app_set(pools=pools(5))
    assert len({id(plan(cache, subject, RULE, f"p{n}").shared) for n in range(5)}) == 1
    assert len({plan(cache, subject, RULE, f"p{n}").digest for n in range(5)}) == 5


def drop_equal_values(delta: ObjectDelta) -> ObjectDelta:
    """Leave out members that are set to the template's value, as a pool gets them that shares its plan with others."""
    members = []
    for name, change in delta.members:
        kept = drop_equal_values(change) if isinstance(change, ObjectDelta) else change
        is_equal = isinstance(kept, Assign) and identical(kept.before, kept.after)
        if not is_equal and not (isinstance(kept, ObjectDelta) and not kept.members):
            members.append((name, kept))
    return delta._replace(members=tuple(members))


def same_plan(shared: Plan, alone: Plan) -> None:
    for name in ("digest", "undo", "undo_text", "warnings"):
        assert getattr(shared, name) == getattr(alone, name), name
    changes = (one._replace(before=None, after=None) if one.before == one.after else one for one in shared.sources)
    assert tuple(changes) == alone.sources
    for found, expected in ((shared.create, alone.create), (shared.update, alone.update)):
        assert found._replace(delta=drop_equal_values(found.delta)) == expected
    assert shared.template == alone.template


def outcome_of(work: Any) -> Any:
    try:
        return work()
    except (RenderError, SubjectError) as error:
        return error


TOKENS = st.lists(
    st.sampled_from(
        [
            patch("add", f"{SPEC}/containers/0/env/-", {"name": "POOL", "value": "in {{nodepool}}"}),
            patch("add", f"{SPEC}/nodeSelector/{{{{nodepool}}}}", "yes"),
            patch("add", "/spec/template/metadata/annotations/note", "{{nodepool}}"),
            patch("add", f"{SPEC}/volumes/-", {"name": "v-{{nodepool}}", "emptyDir": {}}),
            patch("add", f"{SPEC}/containers/-", container("{{nodepool}}", "x:{{nodepool}}")),
        ]
    ),
    max_size=2,
)


OWN_ITEMS = st.lists(
    st.sampled_from(
        [
            image("nginx", "registry.example.org/a:1"), image("nginx", "registry.example.org/b:1"),
            image("nginx", "registry.example.org/{{nodepool}}:1"), image("nginx", "registry.example.org/a:1"),
            image("absent", "registry.example.org/a:1"), image("nginx", ""), image("nginx", "Ü"), image("nginx", "nginx:1"),
            {"replicas": 0}, {"replicas": 1}, {"replicas": 2}, {"replicas": 3}, {"replicas": 77}, {"replicas": -1},
            {"replicas": True}, {**image("nginx", "registry.example.org/c:1"), "replicas": 5},
        ]
    ),
    max_size=3,
)  # fmt: skip
OWN_PATCHES = st.lists(
    st.sampled_from(
        [
            patch("replace", f"{SPEC}/containers/0/image", "registry.example.org/a:1"),
            patch("remove", f"{SPEC}/containers/[image=registry.example.org/b:1]/env"),
            patch("add", f"{SPEC}/containers/-", container("own", "registry.example.org/a:1")),
            patch("replace", "/spec/replicas", 77),
            patch("remove", "/spec/replicas"),
            patch("remove", "/spec/absent"),
            patch("add", f"{SPEC}/containers/[name=nginx]/env/[name=MODE]/value", "east"),
            patch("replace", f"{SPEC}/containers/[name=nginx]/env/[name=MODE]/value", "west"),
            patch("remove", f"{SPEC}/containers/[name=nginx]/env/[value=x~1y]"),
            patch("add", f"{SPEC}/nodeSelector/zone", "east"),
            patch("add", "/spec/template/metadata/annotations/note", "of {{nodepool}}"),
            patch("add", f"{SPEC}/containers/0/args/-", "x/y"),
            patch("add", f"{SPEC}/containers/[name=absent]/image", "nginx:9"),
            patch("add", "/spec/template/metadata/labels", {"a": "of {{nodepool}}", "b": "x/y"}),
            patch("add", f"{SPEC}/nodeSelector", {"zone": "west", "b": 3}),
            patch(
                "add",
                f"{SPEC}/containers/0/env",
                [{"name": "MODE", "value": ""}, {"name": "MODE", "value": "z"}, "MODE"],
            ),
            patch("add", f"{SPEC}/containers/0/args", [1]),
        ]
    ),
    max_size=2,
)
OWN_ENTRIES = st.lists(
    st.builds(
        lambda names, items, patches: entry(*names, items=items, patches=patches),
        st.lists(st.sampled_from(["a", "b", "p2", "-a", "1"]), min_size=1, max_size=2, unique=True),
        OWN_ITEMS,
        OWN_PATCHES,
    ),
    max_size=5,
)


def set_topology(subject: Any, names: list[str]) -> None:
    own = subject["spec"]["topology"]["pools"][0].get("patch")
    term = {"matchExpressions": [{**IN_POOL, "values": ["x"]}]}
    subject["spec"]["topology"]["pools"] = [
        {
            **pool(name, number),
            **({"patch": own} if own else {}),
            "nodeSelectorTerm": {"matchExpressions": [*term["matchExpressions"], {**IN_POOL, "values": [name]}]},
        }
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("place", "value", "name"),
    [
        ("labels", "x/y", "a"),
        ("nodeSelector", "x/y", "a"),
        ("labels", "of {{nodepool}}", "a"),
        ("labels", "of-the-pool-{{nodepool}}", "q" * 55),
        ("labels", "{{nodepool}}-{{nodepool}}", "q" * 32),
        ("nodeSelector", "of-the-pool-{{nodepool}}", "q" * 55),
    ],
)
@pytest.mark.parametrize("pools", [["*"], None], ids=["all pools", "its own"])
def test_a_shared_plan_refuses_the_labels_that_a_pool_would_refuse_alone(
    place: str, value: str, name: str, pools: list[str] | None
) -> None:
    subject = yurt_app_set()
    set_topology(subject, ["b", name])
    parent = "/spec/template/metadata" if place == "labels" else SPEC
    rule = overrider(entry(*(pools or [name]), patches=[patch("add", f"{parent}/{place}/a", value)]))
    outcome = outcome_of(lambda: plan(PlanCache(), subject, rule, name))
    assert isinstance(outcome, RenderError)
    assert "is not valid" in str(outcome)


@settings(max_examples=EXAMPLES)
@given(
    SUBJECTS,
    OVERRIDERS,
    TOKENS,
    OWN_ENTRIES,
    st.lists(st.sampled_from(["a", "b", "p2", "Ü", "1", "b-", "q" * 55]), min_size=1, unique=True),
)
@example(yurt_app_set(), overrider(entry("*", items=[{"replicas": 5}])), [], [], ["a", "b", "p2", "Ü", "1", "q" * 55])
def test_a_shared_plan_is_the_one_that_a_pool_would_have_alone(
    subject: Any, rule: Any, patches: Any, own: Any, names: list[str]
) -> None:
    if is_v1beta1(subject):
        subject["spec"]["pools"] = names
        for tweak in tweaks_of(subject):
            tweak["pools"] = names[:2]
    else:
        set_topology(subject, names)
    rule["entries"].append(entry("*", "-b", patches=copy.deepcopy(patches)))
    rule["entries"] += copy.deepcopy(own)
    cache = PlanCache()
    for name in names:
        alone = outcome_of(
            lambda name=name: compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=name, node_pool=None)
        )
        found = outcome_of(lambda name=name: plan(cache, subject, rule, name))
        if isinstance(alone, Exception):
            assert (type(found), str(found)) == (type(alone), str(alone))
            continue
        assert (found.digest, found.undo_text, found.applies) == (alone.digest, alone.undo_text, bool(alone.steps))
        same_plan(found.full, alone)


def test_a_daemons_pools_share_a_plan_where_their_taints_are_the_same() -> None:
    objects = [
        node_pool(name, taints=[{"key": key, "effect": "NoSchedule"}])
        for name, key in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    cache, store = PlanCache(), store_of(*objects)
    found = {
        name: cache.plan(
            YURT_APP_DAEMON, yurt_app_daemon(), RULE, kind="Deployment", pool=name, cluster="", store=store
        )
        for name in "abc"
    }
    assert found["a"].shared is found["b"].shared
    assert found["a"].shared is not found["c"].shared
    assert found["b"].full.create.bare["spec"]["template"]["spec"]["nodeSelector"] == {"apps.openyurt.io/nodepool": "b"}


def test_labels_of_node_pools_choose_entries_and_pools_share_their_plan() -> None:
    rule = overrider(
        *RULE["entries"], entry("-b", selector={"matchLabels": {"region": "east"}}, items=[{"replicas": 7}])
    )
    subject = yurt_app_set(pools=[pool(name) for name in "abcde"])
    cache, store = PlanCache(), store_of(*(node_pool(name, {"region": "east", "own": name}) for name in "abcd"))

    def find(name: str) -> PoolPlan:
        return cache.plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=name, cluster="", store=store)

    found = {name: find(name) for name in "abcde"}
    replicas = {name: found[name].full.create.rendered["spec"].get("replicas") for name in found}
    assert replicas == {"a": 7, "b": 2, "c": 7, "d": 7, "e": 2}
    assert found["a"].shared is found["c"].shared is found["d"].shared
    store.put(node_pool("d", {"region": "west"}))
    assert find("d").shared is found["e"].shared
    store.put({**node_pool("c", {"region": "east", "own": "c"}), "status": {"readyNodeNum": 1}})
    assert find("c") is found["c"]


def test_a_subject_that_uses_the_marks_itself_is_compiled_without_them() -> None:
    odd = yurt_app_set(pools=[pool("p0", REPLICAS_MARK), pool("p1")])
    rule = overrider(entry("*", items=[image("nginx", POOL_MARK)]))
    cache = PlanCache()
    assert plan(cache, odd, rule, "p0").full.create.bare["spec"]["replicas"] == REPLICAS_MARK
    rendered = plan(cache, odd, rule, "p1").full.create.rendered
    assert rendered["spec"]["template"]["spec"]["containers"][0]["image"] == POOL_MARK


@pytest.mark.parametrize("name", ["agent", "a" * 250])  # A pool of a subject with a long name shares no plan.
def test_a_plan_that_was_compiled_before_its_node_pool_changed_is_not_used(name: str) -> None:
    subject = yurt_app_daemon(name)
    stores = [store_of(node_pool("p0", taints=[{"key": key, "effect": "NoSchedule"}])) for key in ("old", "new")]
    cache = PlanCache()
    cache.plan(YURT_APP_DAEMON, subject, RULE, kind="Deployment", pool="p0", cluster="", store=stores[0])
    for store in reversed(stores):
        found, own = (
            one.plan(YURT_APP_DAEMON, subject, RULE, kind="Deployment", pool="p0", cluster="", store=store)
            for one in (cache, PlanCache())
        )
        assert (found.full.create.rendered, found.digest) == (own.full.create.rendered, own.digest)


@pytest.mark.parametrize(
    ("names", "make"),
    [
        (("key", "other"), lambda name: {name: "a", "operator": "Exists"}),
        (("x", "z"), lambda name: {"key": f'y"{name}', "operator": "Exists"}),
        (("x", "z"), lambda name: {"key": name, "operator": "Exists"}),
    ],
    ids=["a member has the name", "a text ends in a quote and the name", "a text is the name"],
)
def test_settings_with_the_name_of_a_pool_are_rendered_for_that_pool(
    names: tuple[str, ...], make: Callable[[str], dict[str, str]]
) -> None:
    subject = yurt_app_set(pools=[pool(name, tolerations=[make(name)]) for name in names])
    cache = PlanCache()
    for name in names:
        found, own = (
            one.plan(YURT_APP_SET, subject, RULE, kind="Deployment", pool=name, cluster="", store=store_of())
            for one in (cache, PlanCache())
        )
        assert (found.full.create.rendered, found.digest) == (own.full.create.rendered, own.digest)
        assert pod_spec(found.full.create.rendered)["tolerations"] == [make(name)]


def test_the_subjects_asked_for_least_recently_go_first_when_there_is_no_room() -> None:
    cache = PlanCache(max_weight=200)
    subjects = [yurt_app_set(f"s{n}") for n in range(10)]
    kept = plan(cache, subjects[0], None)
    for subject in subjects:
        plan(cache, subject, None)
        assert plan(cache, subjects[0], None) is kept
    assert cache.weight <= 200
    last = plan(cache, subjects[-1], None)
    assert plan(cache, subjects[-1], None) is last
    assert cache.weight <= 200
    assert cache.of_subject(YURT_APP_SET, subjects[0], None, cluster="").compiled == 1
    assert cache.of_subject(YURT_APP_SET, subjects[1], None, cluster="").compiled == 0


IMAGES = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def plans(*pools: str, rule: object = IMAGES) -> SubjectPlans:
    subject = yurt_app_set(pools=[pool(name) for name in pools])
    return SubjectPlans(YURT_APP_SET, subject, rule)  # type: ignore[arg-type]


def test_a_compilation_that_takes_long_is_left_to_the_caller() -> None:
    patches = [patch("add", f"/spec/template/metadata/labels/l{number}", "x") for number in range(100)]
    made = plans("hangzhou", rule=overrider(entry("*", patches=patches)))
    first, second = (made.find("Deployment", "hangzhou", None) for _ in range(2))
    assert isinstance(first, LongCompilation)
    assert isinstance(second, LongCompilation)
    first.run()
    plan = made.find("Deployment", "hangzhou", None)
    assert isinstance(plan, PoolPlan)
    second.run()
    assert made.compiled == 1
    assert made.plan("Deployment", "hangzhou", None) is plan


def image_of(plan: PoolPlan) -> str:
    name: str = plan.full.create.rendered["spec"]["template"]["spec"]["containers"][0]["image"]
    return name


def test_the_plans_that_were_filled_least_recently_are_evicted() -> None:
    shared, filled = share(), FilledPlans()
    first, second = (PoolPlan(shared, PoolValues(name), filled=filled) for name in ("first", "second"))
    kept, evicted = first.full, second.full
    for number in range(MAX_FILLED - 1):
        assert first.full is kept
        assert image_of(PoolPlan(shared, PoolValues(f"p{number}"), filled=filled)) == f"r.io/p{number}:1"
    assert second.full is not evicted
    assert first.full is kept


def changed(**metadata: Any) -> dict[str, Any]:
    document = yurt_app_set()
    document["metadata"] |= metadata
    return document


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (None, None),
        (yurt_app_set(), copy.deepcopy(yurt_app_set())),
        (yurt_app_set(), {**yurt_app_set(), "status": {"replicas": 3}}),
        (yurt_app_set(), changed(resourceVersion="7", generation=3, managedFields=[])),
    ],
)
def test_status_and_bookkeeping_are_no_input(known: Any, now: Any) -> None:
    assert same_input(known, now)
    assert same_input(now, known)


@pytest.mark.parametrize(
    "now",
    [None, changed(name="other"), changed(namespace="other"), changed(uid="u"), changed(labels={"a": "b"}), changed(annotations={"a": "b"}),
     {**yurt_app_set(), "spec": {}}, {**yurt_app_set(), "more": 1}],
)  # fmt: skip
def test_anything_else_is_another_input(now: Any) -> None:
    assert not same_input(yurt_app_set(), now)
    assert not same_input(now, yurt_app_set())
