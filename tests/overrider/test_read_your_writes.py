"""Tests of the reads before a review; tests/e2e/test_read_your_writes.py uses a real apiserver."""

import copy
import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from app.kube.errors import APIError, UnreachableError
from app.model.admission import AdmissionRequest
from app.model.gvk import GroupKind
from app.overrider.read_your_writes import ensure_fresh_overrider, ensure_fresh_workload, trigger
from app.store import Store, key_of
from app.store.sources.kubernetes.field_selection import FieldSelection
from app.store.stale import StaleError
from tests.builders import (
    entry,
    image,
    overrider,
    owner,
    store_of,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)

REVISION = "apps.openyurt.io/controller-revision-hash"
RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
SELECTING = overrider(entry(selector={"matchLabels": {"region": "east"}}, items=[image("nginx", "nginx:2.0")]))
BOTH = ["/default/YurtAppOverrider", "/default/YurtAppSet/demo"]
BY_NAME = ["/default/YurtAppOverrider/demo1", "/default/YurtAppSet/demo"]


class Live:
    """Records its calls. The watch is at version ``progress``, and reaches ``coming`` in time."""

    def __init__(self, progress: int = 100, coming: int = 100, *, readable: bool = True, unread: str = "") -> None:
        self.progress, self.coming, self.readable, self.unread = progress, coming, readable, unread
        self.asked: list[str] = []
        self.answers: dict[str, Callable[[], None]] = {}
        self.selectors: list[str] = []

    def missing(self, group_kinds: Iterable[GroupKind]) -> str:
        return next((f"{kind.kind} cannot be read" for kind in group_kinds if kind.kind == self.unread), "")

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        del group_kind
        return self.progress < resource_version

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        del seconds
        self.asked.append(f"wait {group_kind.kind} {resource_version}")
        return self.coming >= resource_version

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        await self._read(f"{cluster}/{namespace}/{group_kind.kind}/{name}")

    async def read_selected(self, selection: FieldSelection, *, cluster: str) -> None:
        self.selectors.append(selection.selector)
        await self._read(f"{cluster}/{selection.namespace}/{selection.by.group_kind.kind}")

    async def _read(self, what: str) -> None:
        self.asked.append(what)
        if not self.readable:
            raise UnreachableError("refused")
        if answer := self.answers.get(what):
            answer()


def request(operation: str, document: Any, old: Any = None, **fields: Any) -> AdmissionRequest:
    body = {
        "uid": "u", "operation": operation, "namespace": "default", "object": document, "oldObject": old,
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, **fields,
    }  # fmt: skip
    return msgspec.json.decode(json.dumps(body), type=AdmissionRequest)


async def collect_reads(
    operation: str, document: Any, live: Live | None = None, *, store: Store | None = None, **fields: Any
) -> list[str]:
    live = live or Live()
    asked = request(operation, document, **fields)
    if (reading := ensure_fresh_workload(asked, store=store or store_of(yurt_app_set()), live=live)) is not None:
        await reading
    return live.asked


def annotate(**annotations: str) -> dict[str, Any]:
    made = workload()
    made["metadata"]["annotations"] = annotations
    return made


def make_triggered(version: str, subject: str = "") -> dict[str, Any]:
    text = trigger("2026-06-01T00:00:00Z", overrider=version, subject=subject)
    return annotate(LastOverrideTime=text)


def make_rendered(**spec: Any) -> dict[str, Any]:
    made = workload(**spec)
    made["metadata"]["annotations"] = {"fleethook.io/rendered": "h"}
    return made


async def test_a_create_reads_its_subject_and_the_overriders() -> None:
    assert await collect_reads("CREATE", workload()) == BOTH


async def test_a_yurt_app_daemons_create_reads_the_node_pool_too() -> None:
    made = workload(owners=[owner("YurtAppDaemon", "agent")])
    reads = ["/default/YurtAppOverrider", "/default/YurtAppDaemon/agent", "//NodePool/hangzhou"]
    assert await collect_reads("CREATE", made) == reads
    del made["metadata"]["labels"]["apps.openyurt.io/pool-name"]
    assert await collect_reads("CREATE", made) == reads[:2]


async def test_in_kcp_the_reads_are_in_the_workloads_cluster() -> None:
    made = annotate(**{"kcp.io/cluster": "ws1"})
    assert await collect_reads("CREATE", made) == ["ws1/default/YurtAppOverrider", "ws1/default/YurtAppSet/demo"]


@pytest.mark.parametrize("bound", ["by an overrider", "by an earlier render", "by a render that the writer dropped"])
async def test_an_update_of_the_spec_reads_its_inputs(bound: str) -> None:
    store = store_of(yurt_app_set(), RULE) if bound == "by an overrider" else store_of(yurt_app_set())
    old = workload() if bound == "by an overrider" else make_rendered()
    new = make_rendered(minReadySeconds=7) if bound == "by an earlier render" else workload(minReadySeconds=7)
    expected = BY_NAME if bound == "by an overrider" else BOTH
    assert sorted(await collect_reads("UPDATE", new, old=old, store=store)) == expected


async def test_a_known_overrider_is_read_by_name_and_no_list_is_needed() -> None:
    """kube-apiserver may hold back a list for 100 ms, and answers a read by name at once."""
    reads = await collect_reads("CREATE", workload(), store=store_of(yurt_app_set(), RULE))
    assert sorted(reads) == BY_NAME


async def test_a_known_overrider_that_is_gone_may_have_a_successor() -> None:
    store, live = store_of(yurt_app_set(), RULE), Live()
    successor = overrider(entry("*"), name="demo2")
    live.answers[BY_NAME[0]] = lambda: store.remove(key_of(RULE))
    live.answers[BOTH[0]] = lambda: store.put(successor)
    reads = await collect_reads("CREATE", workload(), live, store=store)
    assert sorted(reads) == sorted({*BOTH, *BY_NAME})
    assert live.asked.index(BOTH[0]) > live.asked.index(BY_NAME[0])


async def test_a_known_overrider_that_now_has_another_subject_makes_a_list_necessary() -> None:
    """It was deleted and created again."""
    store, live = store_of(yurt_app_set(), RULE), Live()
    moved = overrider(entry("*"), subject={"kind": "YurtAppSet", "name": "other"})
    live.answers[BY_NAME[0]] = lambda: store.put(moved)
    assert BOTH[0] in await collect_reads("CREATE", workload(), live, store=store)


async def test_both_of_two_known_overriders_are_read() -> None:
    rival = overrider(entry("*"), name="demo2")
    reads = await collect_reads("CREATE", workload(), store=store_of(yurt_app_set(), RULE, rival))
    assert sorted(reads) == [BY_NAME[0], "/default/YurtAppOverrider/demo2", BY_NAME[1]]


async def test_a_role_without_the_right_to_get_overriders_lists_them() -> None:
    live = Live()

    def refuse() -> None:
        raise APIError(403, "Forbidden", "yurtappoverriders is forbidden")

    live.answers[BY_NAME[0]] = refuse
    reads = await collect_reads("CREATE", workload(), live, store=store_of(yurt_app_set(), RULE))
    assert sorted(reads) == sorted({*BOTH, *BY_NAME})


@pytest.mark.parametrize("error", [UnreachableError("no answer"), APIError(500, "InternalError", "no answer")])
async def test_a_failed_read_by_name_is_not_repeated_as_a_list(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    live = Live()

    def fail() -> None:
        raise error

    live.answers[BY_NAME[0]] = fail
    reads = await collect_reads("CREATE", workload(), live, store=store_of(yurt_app_set(), RULE))
    assert sorted(reads) == BY_NAME
    assert "live read failed, using the store" in caplog.text


@pytest.mark.parametrize("place", ["the workload", "the pod template"])
async def test_an_update_of_the_revision_reads_its_inputs(place: str) -> None:
    old = make_rendered()
    new = copy.deepcopy(old)
    where = new if place == "the workload" else new["spec"]["template"]
    where["metadata"]["labels"][REVISION] = "2"
    assert await collect_reads("UPDATE", new, old=old) == BOTH


async def test_an_update_of_metadata_reads_nothing() -> None:
    store = store_of(yurt_app_set(), RULE)
    new = make_rendered()
    new["metadata"]["labels"]["team"] = "edge"
    new["metadata"]["finalizers"] = []
    new["status"] = {"replicas": 2}
    assert await collect_reads("UPDATE", new, old=make_rendered(), store=store) == []


async def test_an_update_of_a_workload_without_overrider_reads_nothing() -> None:
    assert await collect_reads("UPDATE", workload(minReadySeconds=7), old=workload()) == []
    other = overrider(entry("*"), subject={"kind": "YurtAppSet", "name": "other"})
    store = store_of(yurt_app_set(), other)
    assert await collect_reads("UPDATE", workload(minReadySeconds=7), old=workload(), store=store) == []


@pytest.mark.parametrize("member", ["scale", "status"])
async def test_subresources_read_nothing(member: str) -> None:
    new, old = make_rendered(minReadySeconds=7), make_rendered()
    assert await collect_reads("UPDATE", new, old=old, store=store_of(yurt_app_set(), RULE), subResource=member) == []


async def test_the_update_of_a_workload_that_is_being_deleted_reads_nothing() -> None:
    new = make_rendered(minReadySeconds=7)
    new["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
    assert await collect_reads("UPDATE", new, old=make_rendered()) == []


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_other_operations_read_nothing(operation: str) -> None:
    assert await collect_reads(operation, workload()) == []


async def test_a_workload_without_a_subject_reads_nothing() -> None:
    assert await collect_reads("CREATE", workload(owners=[])) == []
    assert await collect_reads("CREATE", workload(), subResource="scale") == []


async def test_a_trigger_with_known_versions_needs_no_wait() -> None:
    assert await collect_reads("UPDATE", make_triggered("100")) == []
    assert await collect_reads("UPDATE", annotate(LastOverrideTime="2026-06-01T00:00:00Z")) == []


async def test_a_trigger_with_unknown_versions_waits_and_then_reads() -> None:
    assert await collect_reads("UPDATE", make_triggered("101"), Live(coming=101)) == ["wait YurtAppOverrider 101"]
    assert await collect_reads("UPDATE", make_triggered("101")) == ["wait YurtAppOverrider 101", *BOTH]


async def test_a_trigger_may_name_the_subject_too() -> None:
    assert await collect_reads("UPDATE", make_triggered("90", subject="100")) == []
    assert await collect_reads("UPDATE", make_triggered("90", subject="101"), Live(coming=101)) == [
        "wait YurtAppSet 101"
    ]
    assert await collect_reads("UPDATE", make_triggered("90", subject="101")) == ["wait YurtAppSet 101", *BOTH]


async def test_a_failed_read_is_stale_if_the_store_is_behind() -> None:
    with pytest.raises(StaleError, match="refused"):
        await collect_reads("UPDATE", make_triggered("101"), Live(readable=False))


async def test_a_failed_read_uses_the_store_if_it_may_be_current(caplog: pytest.LogCaptureFixture) -> None:
    assert len(await collect_reads("CREATE", workload(), Live(readable=False))) == 2
    assert "live read failed, using the store: refused" in caplog.text
    assert (
        await collect_reads("UPDATE", make_rendered(minReadySeconds=7), Live(readable=False), old=make_rendered())
        == BOTH
    )


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_without_the_overriders_the_review_of_a_workload_is_stale(operation: str) -> None:
    live = Live(unread="YurtAppOverrider")
    with pytest.raises(StaleError, match="YurtAppOverrider cannot be read"):
        await collect_reads(operation, workload(), live, old=workload())
    assert live.asked == []
    assert await collect_reads(operation, workload(owners=[]), live, old=workload()) == []


async def test_without_the_subjects_only_reviews_with_an_overrider_are_stale() -> None:
    live = Live(unread="YurtAppSet")
    assert await collect_reads("CREATE", workload(), live) == ["/default/YurtAppOverrider"]
    store = store_of(RULE)
    with pytest.raises(StaleError, match="YurtAppSet cannot be read"):
        await collect_reads("CREATE", workload(), live, store=store)
    with pytest.raises(StaleError, match="YurtAppSet cannot be read"):
        await collect_reads("UPDATE", make_rendered(minReadySeconds=7), live, old=make_rendered())


async def test_without_the_subjects_an_update_of_metadata_is_answered() -> None:
    live = Live(unread="YurtAppSet")
    assert await collect_reads("UPDATE", make_rendered(), live, old=make_rendered(), store=store_of(RULE)) == []


async def test_a_kind_that_the_answer_does_not_depend_on_may_be_missing() -> None:
    assert (
        await collect_reads("CREATE", workload(), Live(unread="NodePool"), store=store_of(RULE))
        == BOTH[1:] + BY_NAME[:1]
    )
    assert (
        await collect_reads("CREATE", workload(), Live(unread="YurtAppDaemon"), store=store_of(RULE))
        == BOTH[1:] + BY_NAME[:1]
    )
    daemon = workload(owners=[owner("YurtAppDaemon", "agent")])
    rule = overrider(entry("*"), subject={"kind": "YurtAppDaemon", "name": "agent"})
    store = store_of(yurt_app_daemon(), rule)
    with pytest.raises(StaleError, match="NodePool cannot be read"):
        await collect_reads("CREATE", daemon, Live(unread="NodePool"), store=store)


@pytest.mark.parametrize("text", ["overrider@", "overrider@x", "overrider@" + "9" * 30, ""])
async def test_a_trigger_without_versions_needs_no_wait(text: str) -> None:
    assert await collect_reads("UPDATE", annotate(LastOverrideTime=text)) == []


async def ensure_fresh(document: Any, live: Live | None = None, *, old: Any = None, store: Any = None) -> list[str]:
    live = live or Live()
    asked_for = request("UPDATE" if old else "CREATE", document, old)
    await ensure_fresh_overrider(asked_for, store=store_of() if store is None else store, live=live)
    return live.asked


async def test_an_overriders_review_reads_its_rivals_and_its_subject() -> None:
    assert await ensure_fresh(RULE) == BOTH
    changed = overrider(entry("hangzhou"))
    assert await ensure_fresh(changed, old=RULE) == BOTH
    # Its subject is no kind of OpenYurt, so the validation refuses it without reading.
    assert await ensure_fresh(overrider(subject={"kind": "Pod", "name": "x"})) == []


async def test_an_overriders_update_that_changes_metadata_reads_nothing() -> None:
    labelled = overrider(*RULE["entries"], labels={"team": "edge"})
    assert await ensure_fresh(labelled, Live(unread="YurtAppOverrider"), old=RULE) == []


async def test_an_overrider_is_validated_without_the_kinds_that_it_does_not_name() -> None:
    for_daemon = overrider(entry("*"), subject={"kind": "YurtAppDaemon", "name": "agent"})
    assert await ensure_fresh(RULE, Live(unread="NodePool")) == BOTH
    assert await ensure_fresh(RULE, Live(unread="YurtAppDaemon")) == BOTH
    assert await ensure_fresh(for_daemon, Live(unread="YurtAppSet"))
    for rule, kind in ((RULE, "YurtAppSet"), (for_daemon, "NodePool"), (RULE, "YurtAppOverrider")):
        live = Live(unread=kind)
        with pytest.raises(StaleError, match=f"{kind} cannot be read"):
            await ensure_fresh(rule, live)
        assert live.asked == []


async def test_an_overrider_of_a_v1beta1_set_is_validated_with_the_node_pools() -> None:
    store = store_of(yurt_app_set_v1beta1())
    assert await ensure_fresh(RULE, store=store) == BOTH
    with pytest.raises(StaleError, match="NodePool cannot be read"):
        await ensure_fresh(RULE, Live(unread="NodePool"), store=store)


async def test_an_overrider_with_a_selector_is_validated_with_the_node_pools() -> None:
    store = store_of(yurt_app_set())
    assert await ensure_fresh(SELECTING, store=store) == BOTH
    assert await ensure_fresh(RULE, Live(unread="NodePool"), store=store) == BOTH
    with pytest.raises(StaleError, match="NodePool cannot be read"):
        await ensure_fresh(SELECTING, Live(unread="NodePool"), store=store)


async def test_a_workload_reads_its_node_pool_if_an_entry_selects_by_labels() -> None:
    store = store_of(yurt_app_set(), SELECTING)
    assert sorted(await collect_reads("CREATE", workload(), store=store)) == ["//NodePool/hangzhou", *BY_NAME]
    with pytest.raises(StaleError, match="NodePool cannot be read"):
        await collect_reads("CREATE", workload(), Live(unread="NodePool"), store=store)


@pytest.mark.parametrize("unread", ["", "NodePool"])
async def test_a_selector_that_is_read_with_the_overrider_makes_its_node_pool_necessary(unread: str) -> None:
    store, live = store_of(yurt_app_set(), RULE), Live(unread=unread)
    live.answers["/default/YurtAppOverrider/demo1"] = lambda: store.put(SELECTING)
    if unread:
        with pytest.raises(StaleError, match="NodePool cannot be read"):
            await collect_reads("CREATE", workload(), live, store=store)
    else:
        assert (await collect_reads("CREATE", workload(), live, store=store))[-1] == "//NodePool/hangzhou"


async def test_only_the_overriders_of_the_subject_are_read() -> None:
    live = Live()
    await collect_reads("CREATE", workload(), live)
    await ensure_fresh(RULE, live)
    odd = overrider(subject={"kind": "YurtAppSet", "name": "a,b=c\\d"})
    await ensure_fresh(odd, live)
    of_demo = "subject.kind=YurtAppSet,subject.name=demo"
    assert live.selectors == [of_demo, of_demo, "subject.kind=YurtAppSet,subject.name=a\\,b\\=c\\\\d"]


async def test_the_deletion_of_an_overrider_reads_its_rivals_and_its_subject() -> None:
    live = Live()
    asked = request("DELETE", None, RULE)
    await ensure_fresh_overrider(asked, store=store_of(), live=live)
    assert (live.asked, asked.unread) == (BOTH, [])


async def test_a_failed_read_for_an_overrider_leaves_its_reason() -> None:
    asked = request("CREATE", RULE)
    await ensure_fresh_overrider(asked, store=store_of(), live=Live(readable=False))
    assert asked.unread == ["refused"]
