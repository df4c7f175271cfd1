"""The kinds that a workload under review makes doubtful; tests/engines/overrider/admission/test_fresh_read_requests_and_waits.py reads them."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from fleethook.cluster.partial_and_stale_objects import StaleError
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.fresh_read_decision import Doubts, ReviewedWorkload
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    compile_plan,
    container,
    entry,
    image,
    node_pool,
    overrider,
    owner,
    patch,
    rendered,
    request,
    store_of,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.worlds import ALPHA_SUBJECTS, EXAMPLES, OVERRIDERS, can_exist, stored_by_owner

RENDERED = "fleethook.io/rendered"
REVISION = "apps.openyurt.io/controller-revision-hash"
RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))
EAST = overrider(entry(selector={"matchLabels": {"region": "east"}}, items=[image("nginx", "nginx:2.0")]))
LEAVING = overrider(entry("*", items=[image("nginx", "nginx:2.0"), {"leave": ["replicas"]}]))
BROKEN = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/volumes")]))
SET, DAEMON, OVERRIDER, POOL = "YurtAppSet", "YurtAppDaemon", "YurtAppOverrider", "NodePool"

Edit = Callable[[dict[str, Any]], Any]


def container_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["template"]["spec"]["containers"][0]
    return found


def revise(document: dict[str, Any], revision: str) -> None:
    for labels in (document["metadata"]["labels"], document["spec"]["template"]["metadata"]["labels"]):
        labels[REVISION] = revision


def written(edit: Edit = lambda _: None, *, revision: str = "demo-1", **fields: Any) -> dict[str, Any]:
    """A workload as OpenYurt's controller creates it."""
    made = workload(**fields)
    revise(made, revision)
    edit(made)
    return made


def find(
    document: dict[str, Any], *, old: Any = None, store: StoreView | None = None, unread: str = "", **fields: Any
) -> list[str]:
    """Return the kinds that are read one after the other, if no read brings anything new."""
    review = request(document, **{"operation": "UPDATE" if old else "CREATE", "old": old, **fields})
    reviewed = ReviewedWorkload.of(review)
    if reviewed is None:
        return []

    def missing(kinds: Any) -> str:
        return next((f"{kind.kind} cannot be read" for kind in kinds if kind.kind == unread), "")

    doubts = Doubts(reviewed, store=store or store_of(yurt_app_set(), RULE), plans=PlanCache(), missing=missing)
    while (kind := doubts.find()) is not None:
        doubts.settled.add(kind)
    asked: list[GroupKind] = [*doubts.settled]
    return sorted(kind.kind for kind in asked)


def inject(document: dict[str, Any]) -> None:
    document["spec"]["template"]["spec"]["containers"].insert(0, container("proxy", "proxy:1"))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        pytest.param(lambda _: None, [], id="the stored template"),
        pytest.param(lambda made: container_of(made).update(args=["--new"]), [], id="a newer one adds a member"),
        pytest.param(inject, [], id="another webhook adds a container"),
        pytest.param(lambda made: container_of(made).update(image="nginx:2.0"), [], id="a rendered workload"),
        pytest.param(lambda made: container_of(made).update(image="nginx:1.1"), [SET], id="another value"),
        pytest.param(lambda made: made["spec"]["template"]["spec"].update(containers=[]), [SET], id="it lacks a part"),
        pytest.param(
            lambda made: made["metadata"].update(ownerReferences=[owner(uid="other")]), [SET], id="another owner"
        ),
        pytest.param(lambda made: made["metadata"]["labels"].update({"app": "x"}), [SET], id="another label"),
    ],
)
def test_a_create_that_fits_the_stored_template_reads_nothing(edit: Edit, expected: list[str]) -> None:
    assert find(written(edit)) == expected


@pytest.mark.parametrize(
    ("objects", "pool", "expected"),
    [
        pytest.param([yurt_app_set()], "hangzhou", [OVERRIDER], id="no overrider is known"),
        pytest.param([RULE], "hangzhou", [SET], id="no subject is known"),
        pytest.param([yurt_app_set(), RULE], "beijing", [], id="no entry selects the pool"),
        pytest.param([yurt_app_set(), RULE], "shanghai", [SET], id="the subject does not have the pool"),
        pytest.param([yurt_app_set(), BROKEN], "hangzhou", [OVERRIDER, SET], id="an entry does not fit"),
        pytest.param([yurt_app_set(), EAST], "hangzhou", [POOL], id="an entry may select the pool"),
        pytest.param([yurt_app_set(), EAST, node_pool("hangzhou")], "hangzhou", [], id="no selector selects the pool"),
        pytest.param(
            [yurt_app_set(), EAST, node_pool("hangzhou", {"region": "east"})],
            "hangzhou",
            [],
            id="a selector selects it",
        ),
    ],
)
def test_a_create_reads_an_object_that_the_store_lacks(objects: list[Any], pool: str, expected: list[str]) -> None:
    assert find(written(pool=pool), store=store_of(*objects)) == expected


def rewrite(made: dict[str, Any]) -> None:
    """Write the template as OpenYurt's controller does."""
    made["spec"]["template"] = copy.deepcopy(written()["spec"]["template"])
    revise(made, "demo-2")


def edit_by_hand(made: dict[str, Any]) -> None:
    container_of(made).update(image="nginx:9.9")


def rewrite_newer(made: dict[str, Any]) -> None:
    rewrite(made)
    container_of(made).update(image="nginx:1.1")


def drop_annotations(made: dict[str, Any]) -> None:
    edit_by_hand(made)
    made["metadata"]["annotations"] = {"apps.openyurt.io/patch": ""}


def change_pool_patch(made: dict[str, Any]) -> None:
    rewrite_newer(made)
    revise(made, "demo-1")
    made["metadata"]["annotations"]["apps.openyurt.io/patch"] = "{}"


def forget_revision(made: dict[str, Any]) -> None:
    edit_by_hand(made)
    del made["metadata"]["labels"][REVISION]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (rewrite, []),
        (edit_by_hand, []),
        (drop_annotations, []),
        (lambda made: made["metadata"]["labels"].update(team="edge"), []),
        (lambda made: made["spec"].update(minReadySeconds=7), []),
        (rewrite_newer, [SET]),
        (change_pool_patch, [SET]),
        (forget_revision, [SET]),
    ],
)
def test_an_update_reads_its_subject_only_if_the_template_may_be_newer(edit: Edit, expected: list[str]) -> None:
    old = rendered(written(), yurt_app_set(), RULE)
    new = copy.deepcopy(old)
    edit(new)
    assert find(new, old=old) == expected


def test_an_update_after_a_render_by_another_plan_is_compared_with_the_template() -> None:
    old = rendered(written(), yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:3.0")])))
    new = copy.deepcopy(old)
    edit_by_hand(new)
    assert find(new, old=old) == [SET]
    rewrite(new)
    assert find(new, old=old) == []


def test_an_overrider_that_a_rendered_workload_lacks_may_be_newer_than_the_store() -> None:
    old = rendered(written(), yurt_app_set(), RULE)
    new = {**old, "spec": {**old["spec"], "minReadySeconds": 7}}
    assert find(new, old=old, store=store_of(yurt_app_set())) == [OVERRIDER, SET]
    assert find(new, old=new, store=store_of(yurt_app_set())) == []
    plain = written()
    assert find({**plain, "spec": new["spec"]}, old=plain, store=store_of(yurt_app_set())) == []


@pytest.mark.parametrize(("number", "expected"), [(2, []), (5, [SET]), (7, [])])
def test_a_number_of_replicas_that_an_entry_leaves_may_be_that_of_a_newer_template(
    number: int, expected: list[str]
) -> None:
    old = rendered(written(), yurt_app_set(), LEAVING)
    old["spec"]["replicas"] = 7  # An autoscaler has set it.
    new = {**old, "spec": {**old["spec"], "replicas": number}}
    assert find(new, old=old, store=store_of(yurt_app_set(), LEAVING)) == expected


def test_the_template_of_a_daemon_depends_on_its_node_pool() -> None:
    rule = overrider(*RULE["entries"], subject={"kind": DAEMON, "name": "agent"})
    made = written(owners=[owner(DAEMON, "agent")])
    store = store_of(yurt_app_daemon(), rule)
    assert find(made, store=store) == [POOL, DAEMON]
    with pytest.raises(StaleError, match="NodePool cannot be read"):
        find(made, store=store, unread=POOL)


def test_the_tweaks_of_a_v1beta1_set_depend_on_its_node_pool() -> None:
    made = written(owners=[owner(apiVersion="apps.openyurt.io/v1beta1")])
    edit_by_hand(made)
    assert find(made, store=store_of(yurt_app_set_v1beta1(), RULE)) == [POOL, SET]


@pytest.mark.parametrize("fields", [{"subResource": "scale"}, {"kind": "ReplicaSet"}, {"operation": "DELETE"}])
def test_reviews_without_a_render_read_nothing(fields: dict[str, Any]) -> None:
    assert find(written(edit_by_hand), **fields) == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda made: made["metadata"].update(ownerReferences=[]),
        lambda made: made["metadata"].update(deletionTimestamp="2026-06-01T00:00:00Z"),
        lambda made: made.update(spec=None),
        lambda made: made.update(metadata=[]),
    ],
)
def test_workloads_that_are_not_rendered_read_nothing(edit: Edit) -> None:
    assert find(written(edit)) == []


EDITS = st.sampled_from(
    [
        lambda pods: pods["containers"][0].update(args=["newer"]),
        lambda pods: pods["containers"][0].pop("args", None),
        lambda pods: pods["containers"][0].update(image="newer:1"),
        lambda pods: pods["containers"][0].update(resources={"requests": {"memory": "1Gi"}}),
        lambda pods: pods["containers"][0].setdefault("env", []).append({"name": "NEWER", "value": "1"}),
        lambda pods: pods["containers"].append(container("newer", "newer:1")),
        lambda pods: pods.update(nodeSelector={"newer": "1"}),
        lambda pods: pods.pop("tolerations", None),
        lambda pods: pods.pop("volumes", None),
        lambda pods: pods.update(securityContext={"fsGroup": 7}),
    ]
)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(ALPHA_SUBJECTS, OVERRIDERS, st.lists(EDITS, min_size=1, max_size=2), st.booleans())
def test_a_render_from_an_older_subject_ends_as_one_from_the_newest(
    older: dict[str, Any], rule: dict[str, Any], edits: list[Edit], creating: bool
) -> None:
    """The leader has the workload rendered again. Nothing of the older subject is left, also without the overrider."""
    newer = copy.deepcopy(older)
    for edit in edits:
        edit(newer["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"])
    try:
        bare = [
            compile_plan(YURT_APP_SET, one, rule, kind="Deployment", pool="hangzhou", node_pool=None).create.bare
            for one in (older, newer)
        ]
    except (SubjectError, RenderError):
        assume(False)
    first, sent = map(stored_by_owner, bare)
    assume(can_exist(sent))
    update: dict[str, Any] = {}
    if not creating:
        stored = rendered(first, older, rule)
        sent["metadata"]["annotations"] = {**stored["metadata"]["annotations"], **sent["metadata"]["annotations"]}
        update = {"operation": "UPDATE", "old": stored}
    revise(sent, "demo-2")
    assume(find(sent, store=store_of(older, rule), **update) == [])
    event("proven")
    late, current = (rendered(sent, one, rule, **update) for one in (older, newer))
    late, current = (touched(one, newer, rule) for one in (late, current))
    assert late["spec"] == current["spec"]
    assert late["metadata"]["annotations"].get(RENDERED) == current["metadata"]["annotations"].get(RENDERED)
    assert touched(late, newer) == touched(current, newer)


def touched(stored: dict[str, Any], *objects: dict[str, Any]) -> dict[str, Any]:
    """Have a workload rendered again, as the leader does."""
    return rendered(stored, *objects, operation="UPDATE", old=stored)
