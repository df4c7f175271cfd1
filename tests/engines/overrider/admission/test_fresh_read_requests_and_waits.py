"""Tests of the reads before a review; tests/e2e/test_read_your_writes.py uses a real apiserver."""

import copy
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.watched_resources import FieldSelection
from fleethook.cluster.partial_and_stale_objects import StaleError
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.engines.overrider.admission.fresh_read_requests_and_waits import FreshReads, ensure_fresh_overrider
from fleethook.engines.overrider.controller.workload_writes_and_retries import RequiredVersions
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_overriders import read_overriders
from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupKind
from fleethook.work.threads_and_gc import Worker
from tests.builders import (
    container,
    entry,
    image,
    node_pool,
    overrider,
    owner,
    pod_template,
    store_of,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)

RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
LIST, SUBJECT, BY_NAME = (
    "/default/YurtAppOverrider", "/default/YurtAppSet/demo", "/default/YurtAppOverrider/demo1"
)  # fmt: skip
BOTH = [LIST, SUBJECT]
AGENT, OTHER = {"kind": "YurtAppDaemon", "name": "agent"}, {"kind": "YurtAppSet", "name": "other"}


class Live:
    """Records its calls. The watch is at version ``progress``, and reaches ``coming`` in time."""

    def __init__(self, progress: int = 100, coming: int = 100, *, readable: bool = True, unread: str = "") -> None:
        self.progress, self.coming, self.readable, self.unread = progress, coming, readable, unread
        self.asked: list[str] = []
        self.answers: dict[str, Callable[[], None]] = {}
        self.changes: dict[str, Callable[[Store], None]] = {}
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
    reads = FreshReads(store or store_of(yurt_app_set()), PlanCache(), live, Worker())
    if (work := reads.ensure(asked)) is not None:
        await work
    return live.asked


def annotate(**annotations: str) -> dict[str, Any]:
    made = workload()
    made["metadata"]["annotations"] = annotations
    return made


def make_triggered(version: str, subject: str = "") -> dict[str, Any]:
    text = RequiredVersions(version, subject).write_trigger("2026-06-01T00:00:00Z")
    return annotate(LastOverrideTime=text)


def make_newer(image: str = "nginx:1.1") -> dict[str, Any]:
    """A workload of another template than the store has."""
    made = workload()
    made["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return made


async def test_without_evidence_one_object_is_read_after_the_other() -> None:
    assert await collect_reads("CREATE", make_newer()) == [LIST]
    live, store = Live(), store_of()
    live.answers[LIST] = lambda: store.put(RULE)
    assert await collect_reads("CREATE", make_newer(), live, store=store) == [LIST, SUBJECT]
    assert await collect_reads("CREATE", make_newer(), store=store_of(yurt_app_set(), RULE)) == [SUBJECT]
    assert await collect_reads("CREATE", workload(), store=store_of(yurt_app_set(), RULE)) == []


async def test_a_read_that_brings_the_evidence_is_the_last_one() -> None:
    live, store = Live(), store_of(yurt_app_daemon(), overrider(entry("*", items=[image("nginx", "a")]), subject=AGENT))
    made = make_newer()
    made["metadata"]["ownerReferences"] = [owner("YurtAppDaemon", "agent")]
    pool = "//NodePool/hangzhou"
    assert await collect_reads("CREATE", made, live, store=store) == [pool, "/default/YurtAppDaemon/agent"]
    store.put(node_pool("hangzhou"))
    assert await collect_reads("CREATE", made, Live(), store=store) == ["/default/YurtAppDaemon/agent", pool]
    newer = yurt_app_daemon(template=make_newer()["spec"]["template"])
    live = Live()
    live.answers["/default/YurtAppDaemon/agent"] = lambda: store.put(newer)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"apps.openyurt.io/nodepool": "hangzhou"}
    made["metadata"]["annotations"] = {"apps.openyurt.io/ref-nodepool": "hangzhou"}
    assert await collect_reads("CREATE", made, live, store=store) == ["/default/YurtAppDaemon/agent"]


async def test_a_large_plan_is_compiled_in_a_thread_before_the_evidence_is_examined() -> None:
    template = pod_template(containers=[container(env=[{"name": f"V{n}", "value": "x"} for n in range(2_000)])])
    store, plans, live = store_of(yurt_app_set(template=template), RULE), PlanCache(), Live()
    reads = FreshReads(store, plans, live, Worker())
    made = workload()
    made["spec"]["template"]["spec"] = copy.deepcopy(template["spec"])
    work = reads.ensure(request("CREATE", made))
    assert work is not None
    await work
    assert reads.ensure(request("CREATE", made)) is None
    assert live.asked == []


AT_DEMO: Final = ObjectKey("", GroupKind("apps.openyurt.io", "YurtAppSet"), "default", "demo")


async def collect_overrider_reads(live: Live, *known: dict[str, Any]) -> list[str]:
    store = store_of(*known)
    live.answers = {path: partial(answer, store) for path, answer in live.changes.items()}
    await read_overriders(AT_DEMO, store=store, live=live)
    return live.asked


async def test_known_overriders_are_read_by_name_and_no_list_is_needed() -> None:
    """kube-apiserver may hold back a list for 100 ms, and answers a read by name at once."""
    assert await collect_overrider_reads(Live()) == [LIST]
    assert await collect_overrider_reads(Live(), RULE) == [BY_NAME]
    rival = overrider(entry("*"), name="demo2")
    assert sorted(await collect_overrider_reads(Live(), RULE, rival)) == [BY_NAME, "/default/YurtAppOverrider/demo2"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda store: store.remove(key_of(RULE)), id="it is gone"),
        pytest.param(lambda store: store.put(overrider(entry("*"), subject=OTHER)), id="it has another subject"),
    ],
)
async def test_a_read_by_name_without_a_result_makes_a_list_necessary(change: Callable[[Store], None]) -> None:
    live = Live()
    live.changes[BY_NAME] = change
    assert await collect_overrider_reads(live, RULE) == [BY_NAME, LIST]


@pytest.mark.parametrize("error", [UnreachableError("no answer"), APIError(500, "InternalError", "no answer")])
async def test_a_failed_read_by_name_is_not_repeated_as_a_list(error: Exception) -> None:
    live = Live()

    def fail(_store: Store) -> None:
        raise error

    live.changes[BY_NAME] = fail
    with pytest.raises(type(error), match="no answer"):
        await collect_overrider_reads(live, RULE)
    assert live.asked == [BY_NAME]


async def test_a_trigger_with_unknown_versions_waits_and_then_reads() -> None:
    made = make_triggered("101")
    assert await collect_reads("UPDATE", made, Live(coming=101), old=made) == ["wait YurtAppOverrider 101"]
    assert await collect_reads("UPDATE", made, old=made) == ["wait YurtAppOverrider 101", LIST]


async def test_a_trigger_may_name_the_subject_too() -> None:
    made = make_triggered("90", subject="101")
    assert await collect_reads("UPDATE", make_triggered("90", subject="100"), old=made) == []
    assert await collect_reads("UPDATE", made, Live(coming=101), old=made) == ["wait YurtAppSet 101"]
    assert await collect_reads("UPDATE", made, old=made) == ["wait YurtAppSet 101", SUBJECT]


async def test_a_failed_read_is_stale_if_the_store_is_behind() -> None:
    with pytest.raises(StaleError, match="refused"):
        await collect_reads("UPDATE", make_triggered("101"), Live(readable=False))


async def test_a_failed_read_uses_the_store_if_it_may_be_current(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(yurt_app_set(), RULE)
    assert await collect_reads("CREATE", make_newer(), Live(readable=False), store=store) == [SUBJECT]
    assert "live read failed, using the store: refused" in caplog.text
    assert await collect_reads("UPDATE", make_newer(), Live(readable=False), store=store, old=workload()) == [SUBJECT]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_without_the_overriders_the_review_of_a_workload_is_stale(operation: str) -> None:
    live = Live(unread="YurtAppOverrider")
    with pytest.raises(StaleError, match="YurtAppOverrider cannot be read"):
        await collect_reads(operation, workload(), live, old=workload())
    assert live.asked == []
    assert await collect_reads(operation, workload(owners=[]), live, old=workload()) == []


async def test_without_the_subjects_only_reviews_with_an_overrider_are_stale() -> None:
    live = Live(unread="YurtAppSet")
    assert await collect_reads("CREATE", workload(), live) == [LIST]
    with pytest.raises(StaleError, match="YurtAppSet cannot be read"):
        await collect_reads("CREATE", workload(), live, store=store_of(RULE))
    with pytest.raises(StaleError, match="YurtAppSet cannot be read"):
        await collect_reads("UPDATE", make_newer(), live, old=workload(), store=store_of(RULE))
    assert await collect_reads("UPDATE", workload(), live, old=workload(), store=store_of(RULE)) == [LIST]


@pytest.mark.parametrize("text", ["overrider@", "overrider@x", "overrider@" + "9" * 30, ""])
async def test_a_trigger_without_versions_needs_no_wait(text: str) -> None:
    made = annotate(LastOverrideTime=text)
    assert await collect_reads("UPDATE", made, old=made) == []


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


async def test_the_deletion_of_an_overrider_reads_its_rivals_and_its_subject() -> None:
    live = Live()
    asked = request("DELETE", None, RULE)
    await ensure_fresh_overrider(asked, store=store_of(), live=live)
    assert (live.asked, asked.unread) == (BOTH, [])
