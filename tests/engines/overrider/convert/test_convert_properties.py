"""After a conversion, `render` prints the same workload in every node pool, or the report names the difference.
The comparison overlooks the differences that the version itself makes, and no others:
labels and annotations of OpenYurt's controllers, the owner reference, and the node pool as a node selector in place of
a node affinity expression.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.convert.conversion import Converted, convert
from fleethook.engines.overrider.convert.remarks import Remark
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.overlay import settle
from fleethook.engines.overrider.rollout.preview import cells, preview
from fleethook.patch import format_pointer
from tests.builders import node_pool, overrider, store_of, yurt_app_daemon
from tests.engines.overrider.convert.conversions import read_documented_codes
from tests.engines.overrider.render.test_render_properties import (
    MAPS,
    POOLS,
    RULES,
    TOLERATION,
    optional,
    pod_specs,
    subjects,
    unique,
)
from tests.hypothesis_profiles import examples

# Hypothesis' explain phase takes longer than the search.
SETTINGS: Final = settings(
    max_examples=examples(100),
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.explain},
)
DOCUMENTED: Final = read_documented_codes()
POOL_LABEL: Final = "apps.openyurt.io/nodepool"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
Path = tuple[str, ...]

# Subjects: those of rendering, with members of pools that tweaks do not have.

ZONE: Final = {"key": "zone", "operator": "In", "values": ["a", "b"]}
DISK: Final = {"key": "disk", "operator": "Exists"}


def in_pool(name: str) -> dict[str, Any]:
    return {"key": POOL_LABEL, "operator": "In", "values": [name]}


def placements(name: str) -> st.SearchStrategy[dict[str, Any]]:
    terms = st.sampled_from([[in_pool(name)], [in_pool(name), ZONE], [ZONE], [in_pool("elsewhere")], []])
    return optional(
        nodeSelectorTerm=terms.map(lambda made: {"matchExpressions": made}),
        tolerations=unique(TOLERATION, "tolerations"),
    )


PATCHES: Final = st.sampled_from(
    [
        {"spec": {"replicas": 7}},
        {"spec": {"template": {"spec": {"nodeSelector": {"zone": None, "disk": "ssd"}}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "app", "env": [{"name": "A", "$patch": "delete"}]}]}}}},
        {"metadata": {"annotations": {"note": "patched"}}, "spec": {"minReadySeconds": 4}},
        {"spec": {"template": {"spec": {"hostNetwork": None, "tolerations": [{"key": "own", "operator": "Exists"}]}}}},
    ]
)
AFFINITY: Final = st.sampled_from(
    [
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [DISK]}]}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [DISK]}, {"matchExpressions": [ZONE]}]}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}},
    ]
)  # fmt: skip


@st.composite
def app_sets(draw: st.DrawFn) -> dict[str, Any]:
    subject = copy.deepcopy(draw(subjects()))
    (template,) = subject["spec"]["workloadTemplate"].values()
    for pool in subject["spec"]["topology"]["pools"]:
        pool.update(draw(placements(pool["name"])))
        if draw(st.integers(0, 3)) == 0:
            pool["patch"] = draw(PATCHES)
    if draw(st.integers(0, 3)) == 0:
        template["spec"]["template"]["spec"]["affinity"] = draw(AFFINITY)
    if draw(st.booleans()):
        subject["spec"]["revisionHistoryLimit"] = draw(st.integers(0, 5))
    template["metadata"]["labels"] = {"app": "demo", **draw(MAPS)}
    return subject


@st.composite
def app_daemons(draw: st.DrawFn) -> dict[str, Any]:
    pods = {"metadata": {"labels": {"app": "demo"}, "annotations": draw(MAPS)}, "spec": draw(pod_specs())}
    subject = yurt_app_daemon("demo", template=pods, replicas=draw(st.integers(0, 3)))
    if draw(st.booleans()):
        pods["spec"]["affinity"] = draw(AFFINITY)
    return subject


TAINTS: Final = st.lists(
    st.sampled_from([{"key": "edge", "effect": "NoSchedule"}, {"key": "gpu", "value": "x"}]), max_size=2
)
KNOWN: Final = st.tuples(*(TAINTS.map(lambda taints, name=name: node_pool(name, {"region": "east"}, taints=taints)) for name in POOLS))  # fmt: skip


def bound(rule: dict[str, Any], subject: dict[str, Any]) -> dict[str, Any]:
    named = {"apiVersion": subject["apiVersion"], "kind": subject["kind"], "name": "demo"}
    return overrider(*rule["entries"], subject=named)


# Differences between the versions themselves.


def common(workload: dict[str, Any], pool: str) -> dict[str, Any]:
    """The workload with its placement, without members that belong to OpenYurt's controllers."""
    made = copy.deepcopy(workload)
    metadata = made["metadata"]
    del metadata["ownerReferences"]
    annotations = metadata.get("annotations", {})
    for name in [name for name in annotations if name.startswith(("fleethook.io/", "apps.openyurt.io/"))]:
        del annotations[name]
    metadata["labels"].pop("apps.openyurt.io/ref-yurtappset", None)
    place(made["spec"]["template"]["spec"], pool)
    return made


def place(pod_spec: dict[str, Any], pool: str) -> None:
    """Replace the node pool in the node affinity by a node selector if all terms require it."""
    terms = pod_spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms") or []
    if not terms or not all(in_pool(pool) in term.get("matchExpressions", ()) for term in terms):
        return
    pod_spec.setdefault("nodeSelector", {})[POOL_LABEL] = pool
    for term in terms:
        term["matchExpressions"].remove(in_pool(pool))
        if not term["matchExpressions"]:
            del term["matchExpressions"]
    if not all(terms):
        # The terms are alternatives, and one of them requires nothing else.
        del pod_spec["affinity"]["nodeAffinity"][REQUIRED]


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[str]:
    """The paths of all differences. An empty object, list or serviceName means the same as its absence."""
    before, after = (compact(value, path) for value in (before, after))
    if isinstance(before, dict | None) and isinstance(after, dict | None) and path[-1:] != ("emptyDir",):
        for name in {**(before or {}), **(after or {})}:
            yield from differences((before or {}).get(name), (after or {}).get(name), (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from differences(left, right, (*path, str(number)))
    elif before != after:
        yield format_pointer(path)


def compact(value: Any, path: Path) -> Any:
    return None if value == [] or (value == "" and path[-1] == "serviceName") else value


# The property.


def workloads(*objects: dict[str, Any]) -> dict[str, Any]:
    """The rendered workloads of the subject by node pool; None for an error."""
    store, plans, made = store_of(*objects), PlanCache(), {}
    for cell in cells(store, [""]):
        try:
            made[cell.pool] = common(preview(cell, store, plans).workload, cell.pool)
        except RenderError:
            made[cell.pool] = None
    return made


def is_reported(path: str, pool: str, remarks: tuple[Remark, ...]) -> bool:
    return any(
        one.path and path.startswith(one.path) and pool in (*one.pools, *([] if one.pools else [pool]))
        for one in remarks
    )


def check(made: Converted, subject: dict[str, Any], rule: dict[str, Any], pools: tuple[dict[str, Any], ...]) -> None:
    assert made.document is not None, made.remarks
    before, after = workloads(subject, rule, *pools), workloads(made.document, *pools)
    unrendered = {pool for one in made.remarks if one.code == "not-rendered" for pool in one.pools}
    assert {pool for pool, workload in before.items() if workload is None} == unrendered
    assert before.keys() == after.keys()
    for pool, workload in before.items():
        if workload is None:
            continue
        # A render keeps a value that equals kube-apiserver's default, so either side may have it.
        one, other = (settle(a, {}, b, target=None) for a, b in ((after[pool], workload), (workload, after[pool])))
        found = list(differences(one, other))
        missed = [path for path in found if not is_reported(path, pool, made.remarks)]
        assert not missed, (pool, missed, workload, after[pool])
        event(f"same: {not found}")
    for one in made.remarks:
        assert one.level in DOCUMENTED[one.code]
        event(f"{one.level}: {one.code}")
    # Tweaks can express all of these inputs; losses have tests of their own.
    assert not {"lost", "refused"} & {one.code for one in made.remarks}, made.remarks


@SETTINGS
@given(app_sets(), RULES, KNOWN)
def test_an_app_set_means_the_same(
    subject: dict[str, Any], rule: dict[str, Any], pools: tuple[dict[str, Any], ...]
) -> None:
    rule = bound(rule, subject)
    (made,) = convert([subject, rule], store_of(subject, rule, *pools))
    check(made, subject, rule, pools)


@SETTINGS
@given(app_daemons(), RULES, KNOWN)
def test_an_app_daemon_means_the_same(
    subject: dict[str, Any], rule: dict[str, Any], pools: tuple[dict[str, Any], ...]
) -> None:
    rule = bound(rule, subject)
    (made,) = convert([subject, rule], store_of(subject, rule, *pools))
    check(made, subject, rule, pools)
