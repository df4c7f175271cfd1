"""Tests of the node pools that entries name: unknown names, and entries that apply to no node pool."""

from typing import Any

import pytest

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.overrider.rules.findings_in_files import check_documents
from fleethook.engines.overrider.rules.missing_pools import (
    check_pools,
    check_selections,
    known_pools,
)
from fleethook.engines.overrider.subject.subject_and_pools import DAEMONS_WITHOUT_CONTROLLER, Subject
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import (
    entry,
    image,
    node_pool,
    overrider,
    pod_template,
    request,
    store_of,
    validate_overrider,
    validate_subject,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)

DEMO = Subject(YURT_APP_SET, yurt_app_set(), "")


def check(
    *entries: dict[str, Any], subject: Subject = DEMO, unused: Any = (), pools: Any = ()
) -> list[tuple[str, ...]]:
    rule = overrider(*entries)
    known = known_pools(subject, store_of(*pools), overriders=[rule])
    found = check_pools(rule, subject, known, unused=unused)
    return [(one.code, one.field, one.message) for one in found]


def test_an_entry_without_a_node_pool_of_the_subject_is_reported_once() -> None:
    unused = ("unused-entry", "entries[0]", "applies to none of the node pools of YurtAppSet demo")
    assert check(entry("*", "-hangzhou", "-beijing")) == [unused]
    assert check(entry("*", "-hangzhou", "-beijing"), unused={"entries[0]"}) == []


@pytest.mark.parametrize(
    ("labels", "code", "message"),
    [
        (None, "not-checked", "no NodePool is known, so poolSelector selects none: give the NodePools, too"),
        ({"region": "east"}, "", ""),
        (
            {"region": "west"},
            "unused-entry",
            "applies to none of the node pools of YurtAppSet demo; there is no NodePool beijing, so it has no labels",
        ),
    ],
)
def test_a_selector_is_checked_with_the_node_pools(labels: Any, code: str, message: str) -> None:
    pools = [] if labels is None else [node_pool("hangzhou", labels)]
    found = check(entry(selector={"matchLabels": {"region": "east"}}), pools=pools)
    assert [(one[0], one[2]) for one in found] == ([(code, message)] if code else [])
    everywhere = [*pools, node_pool("beijing")]
    assert [one[2] for one in check(entry(selector={"matchLabels": {"region": "e"}}), pools=everywhere)] == [
        "applies to none of the node pools of YurtAppSet demo"
        if labels is not None
        else "applies to none of the node pools of YurtAppSet demo; there is no NodePool hangzhou, so it has no labels"
    ]


@pytest.mark.parametrize(("pools", "codes"), [((), []), ((node_pool("x"),), ["unknown-pool"])])
def test_names_of_a_daemon_are_unknown_only_beside_node_pools(pools: Any, codes: list[str]) -> None:
    daemon = Subject(YURT_APP_DAEMON, yurt_app_daemon(), "")
    assert [one[0] for one in check(entry("far"), subject=daemon, pools=pools)] == codes


TO_2 = entry("*", items=[image("nginx", "nginx:2")])
NEW = "apps.openyurt.io/v1beta2"
EAST = {"region": "east"}


def rule(kind: str, name: str) -> dict[str, Any]:
    return overrider(TO_2, subject={"apiVersion": "apps.openyurt.io/v1alpha1", "kind": kind, "name": name})


def beta(**spec: Any) -> dict[str, Any]:
    """A YurtAppSet v1beta1."""
    template = {"metadata": {"labels": {"app": "demo"}}, "spec": {"selector": {"matchLabels": {"app": "demo"}}}}
    template["spec"]["template"] = pod_template()
    return {
        "apiVersion": "apps.openyurt.io/v1beta1",
        "kind": "YurtAppSet",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"workload": {"workloadTemplate": {"deploymentTemplate": template}}, **spec},
    }


def in_files(*objects: dict[str, Any]) -> set[str]:
    documents = [Document(one, "all.yaml", 1) for one in objects]
    found = check_documents(documents, store_of(*objects))
    assert {one.level for one in found} <= {"warning"}
    return {one.finding.text for one in found if one.finding.code in ("no-controller", "no-pools")}


def at_admission(document: dict[str, Any], *objects: dict[str, Any]) -> set[str]:
    answer = validate_overrider(request(document), store=store_of(*objects))
    assert answer.allowed
    return {text for text in answer.warnings if text.startswith(("subject.kind", "subject.name"))}


def test_a_daemon_beside_node_pools_of_openyurt_1_7_is_a_warning_everywhere() -> None:
    document, daemon = rule("YurtAppDaemon", "agent"), yurt_app_daemon()
    new, old = {**node_pool("a", EAST), "apiVersion": NEW}, node_pool("a", EAST)
    expected = {f"subject.kind: {DAEMONS_WITHOUT_CONTROLLER}"}
    assert at_admission(document, daemon, new) == expected
    assert in_files(document, daemon, new) == expected
    assert at_admission(document, daemon, old) == in_files(document, daemon, old) == set()
    assert at_admission(rule("YurtAppSet", "demo"), yurt_app_set(), new) == set()


@pytest.mark.parametrize(
    ("spec", "text", "own"),
    [
        (
            {"pools": ["beijing", "hangzou"]},
            "YurtAppSet demo has no node pool: there is no NodePool beijing, hangzou, which spec.pools names",
            [
                "spec.pools[0]: there is no NodePool 'beijing'",
                "spec.pools[1]: there is no NodePool 'hangzou'; did you mean 'hangzhou'?",
            ],
        ),
        (
            {"nodepoolSelector": {"matchLabels": {"region": "west"}}},
            "YurtAppSet demo has no node pool: no NodePool has the labels that spec.nodepoolSelector selects",
            ["spec.nodepoolSelector: selects none of the 1 NodePools: compare it with their labels"],
        ),
        (
            {"pools": ["hangzhou", "Hangzhou"]},
            "there is no NodePool Hangzhou, which YurtAppSet demo names",
            ["spec.pools[1]: there is no NodePool 'Hangzhou'; did you mean 'hangzhou'?"],
        ),
        ({"pools": ["hangzhou"]}, "", []),
        ({"nodepoolSelector": {}}, "", []),
    ],
)
def test_a_v1beta1_set_is_compared_with_the_node_pools_that_exist(
    spec: dict[str, Any], text: str, own: list[str]
) -> None:
    objects = (rule("YurtAppSet", "demo"), beta(**spec), node_pool("hangzhou", EAST))
    assert at_admission(*objects) == ({f"subject.name: {text}"} if text else set())
    # The files have the set, so the finding is about its own member.
    assert in_files(*objects) == set(own)


@pytest.mark.parametrize(
    ("selection", "code", "message"),
    [
        ({"pools": ["beijng"]}, "unknown-pool", "has no node pool 'beijng'; did you mean 'beijing'?"),
        ({"pools": ["shanghai"]}, "unknown-pool", "YurtAppSet demo has no node pool 'shanghai'"),
        ({"nodepoolSelector": {"matchLabels": {"region": "west"}}}, "unused-entry", "selects none of the node pools"),
        ({"nodepoolSelector": {"matchLabels": {"region": "south"}}}, "unused-entry", "selects none of the node pools"),
        ({"nodepoolSelector": {"matchLabels": EAST}}, "", ""),
        ({"pools": ["beijing"], "nodepoolSelector": {"matchLabels": {"region": "west"}}}, "", ""),
    ],
)
def test_a_tweak_is_compared_with_the_node_pools_of_its_set(selection: dict[str, Any], code: str, message: str) -> None:
    subject = yurt_app_set_v1beta1(tweaks=[{**selection, "tweaks": {"replicas": 4}}])
    pools = (node_pool("hangzhou", EAST), node_pool("beijing"), node_pool("shanghai", {"region": "south"}))
    found = [*check_selections(Subject(YURT_APP_SET, subject, ""), store_of(subject, *pools))]
    assert [(one.code, message in one.message) for one in found] == ([(code, True)] if code else [])


def test_without_any_node_pool_there_is_no_finding() -> None:
    objects = (rule("YurtAppSet", "demo"), beta(pools=["hangzhou"]))
    assert at_admission(*objects) == in_files(*objects) == set()
    daemon = (rule("YurtAppDaemon", "agent"), yurt_app_daemon())
    assert at_admission(*daemon) == set()


@pytest.mark.parametrize(
    ("pools", "text"),
    [([], "nothing could be rendered"), (["hangzhou"], "only the pools in spec.pools could be rendered")],
)
def test_files_without_node_pools_warn_about_a_selector(pools: list[str], text: str) -> None:
    named = overrider(entry("hangzhou", "beijing", items=[image("nginx", "nginx:2")]))
    objects = (named, beta(pools=pools, nodepoolSelector={"matchLabels": EAST}))
    found = check_documents([Document(one, "all.yaml", 1) for one in objects], store_of(*objects))
    assert [(one.key.group_kind.kind, one.finding.code, one.finding.text) for one in found] == [
        ("YurtAppSet", "not-checked", f"no NodePool is known, so {text} to check this")
    ]


def test_a_v1alpha1_set_without_topology_and_a_daemon_that_selects_nothing_are_warnings() -> None:
    empty = (rule("YurtAppSet", "demo"), yurt_app_set(pools=[]))
    assert at_admission(*empty) == {"subject.name: YurtAppSet demo has no node pool: spec.topology.pools is empty"}
    daemon = (rule("YurtAppDaemon", "agent"), yurt_app_daemon(), node_pool("a", {"region": "west"}))
    text = "YurtAppDaemon agent has no node pool: no NodePool has the labels that spec.nodepoolSelector selects"
    assert at_admission(*daemon) == {f"subject.name: {text}"}
    own = "spec.nodepoolSelector: selects none of the 1 NodePools: compare it with their labels"
    assert in_files(*daemon) == {own}
    assert in_files(*empty) == {"spec.topology.pools: is empty, so there are no workloads"}


def test_an_edit_that_removes_the_last_node_pool_is_a_warning() -> None:
    old, new = yurt_app_set(), yurt_app_set(pools=[])
    store = store_of(rule("YurtAppSet", "demo"), old)
    made = request(new, "UPDATE", old)
    made.kind = type(made.kind)(group="apps.openyurt.io", version="v1alpha1", kind="YurtAppSet")
    answer = validate_subject(made, store=store)
    text = "subject.name: YurtAppSet demo has no node pool: spec.topology.pools is empty"
    assert answer.allowed
    assert f"YurtAppOverrider default/demo1: {text}" in answer.warnings
