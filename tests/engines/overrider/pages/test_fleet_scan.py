import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.engines.overrider.pages.fleet import CellKey, CellState
from fleethook.engines.overrider.pages.fleet_scan import (
    CONTAINERS_OF_A_CELL,
    ClusterWorkloads,
    FleetScan,
    ManifestWorkloads,
)
from fleethook.engines.overrider.pages.matrix import count_states
from fleethook.model.json import JSONObject
from fleethook.work.garbage import GCFreezer
from tests.builders import (
    NEW_IMAGE,
    entry,
    image,
    node_pool,
    overrider,
    pool,
    rendered,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store

HANGZHOU, BEIJING = workload(), workload(pool="beijing")


async def test_manifests_return_the_complete_workloads_and_notice_a_changed_spec(tmp_path: Path) -> None:
    file = tmp_path / "now.yaml"
    file.write_text(yaml.safe_dump_all([HANGZHOU]))
    source = ManifestSource([tmp_path], Store())
    source.load()
    workloads = ManifestWorkloads(source)
    before = workloads.revision
    assert await workloads.read([key_of(HANGZHOU), key_of(BEIJING)]) == {key_of(HANGZHOU): HANGZHOU}
    source.load()
    assert workloads.revision == before
    changed = workload(replicas=50)
    file.write_text(yaml.safe_dump_all([changed]))
    source.load()
    assert workloads.revision > before
    assert await workloads.read([key_of(HANGZHOU)]) == {key_of(HANGZHOU): changed}
    assert not workloads.is_remote


async def test_a_cluster_returns_the_workloads_that_it_can_read() -> None:
    async def read_one(key: ObjectKey) -> JSONObject:
        if key.name == "gone":
            raise APIError(404, "NotFound", "not found")
        if key.name == "away":
            raise UnreachableError("no answer")
        return HANGZHOU

    workloads = ClusterWorkloads(read_one)
    key = key_of(HANGZHOU)
    found = await workloads.read([key._replace(name="gone"), key, key._replace(name="away")])
    assert found == {key: HANGZHOU}
    assert workloads.is_remote


async def test_a_cluster_gets_few_requests_at_once() -> None:
    running = most = 0

    async def read_one(key: ObjectKey) -> JSONObject:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1
        return HANGZHOU

    key = key_of(HANGZHOU)
    found = await ClusterWorkloads(read_one).read([key._replace(name=str(number)) for number in range(50)])
    assert (len(found), most) == (50, 10)


SET = yurt_app_set()


class Workloads:
    """Complete workloads in memory, with the keys that were read."""

    def __init__(self, *documents: JSONObject, is_remote: bool = False) -> None:
        self.documents = {key_of(one): one for one in documents}
        self.is_remote = is_remote
        self.revision = 0
        self.asked: list[str] = []

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        self.asked += [key.name for key in keys]
        return {key: self.documents[key] for key in keys if key in self.documents}


def fleet(
    *objects: dict[str, Any], running: Sequence[JSONObject] = (), is_remote: bool = False
) -> tuple[Store, Workloads, FleetScan]:
    store = make_store(*objects, *running)
    workloads = Workloads(*running, is_remote=is_remote)
    return store, workloads, FleetScan(store, workloads)


def by_pool(scan: FleetScan) -> dict[str, str]:
    return {pool: one.state for (_, pool), one in scan.states[DEMO].items()}


async def test_the_scan_finds_the_states_of_all_cells() -> None:
    _, _, scan = fleet(SET, NEW_IMAGE, running=[workload(), rendered(workload(pool="beijing"), SET, NEW_IMAGE)])
    assert not scan.is_complete
    await scan.scan()
    assert scan.is_complete
    assert by_pool(scan) == {"hangzhou": "rolls", "beijing": "overridden"}


async def test_computed_cells_are_hidden_from_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection that visited the plans of 100,000 cells held the event loop for 90 ms."""
    frozen: list[int] = []
    monkeypatch.setattr(GCFreezer, "add", lambda _, containers: frozen.append(containers))
    store, _, scan = fleet(SET, NEW_IMAGE)
    await scan.scan()
    assert frozen == [2 * CONTAINERS_OF_A_CELL]
    store.put({**NEW_IMAGE, "status": {"dataSource": "x"}})
    await scan.scan()
    assert len(frozen) == 1


async def test_only_changed_subjects_are_computed_again() -> None:
    other = yurt_app_set("other")
    store, _, scan = fleet(SET, other, NEW_IMAGE)
    await scan.scan()
    before = dict(scan.states)
    store.put({**NEW_IMAGE, "entries": []})
    assert not scan.is_complete
    await scan.scan()
    assert by_pool(scan) == {"hangzhou": "unchanged", "beijing": "unchanged"}
    key = DEMO._replace(name="other")
    assert scan.states[key] is before[key]


async def test_changes_of_workloads_count_for_their_subjects_only() -> None:
    other = yurt_app_set("other")
    running = workload()
    store, workloads, scan = fleet(SET, other, NEW_IMAGE, running=[running])
    await scan.scan()
    before = dict(scan.states)
    running["metadata"]["resourceVersion"] = "2"
    store.put(json.loads(json.dumps(running)) | {"status": {"replicas": 1}})
    assert scan.find_current(DEMO)
    workloads.documents = {}
    store.remove(key_of(running))
    assert not scan.find_current(DEMO)
    await scan.scan()
    assert by_pool(scan)["hangzhou"] == "overridden"
    assert scan.states[DEMO._replace(name="other")] is before[DEMO._replace(name="other")]
    store.put(workload(owners=[]))
    assert scan.find_current(DEMO)
    store.put(running)
    assert not scan.find_current(DEMO)


async def test_a_changed_status_computes_nothing_again() -> None:
    store, _, scan = fleet(SET, NEW_IMAGE)
    await scan.scan()
    before = scan.states[DEMO]
    store.put({**SET, "status": {"replicas": 3}})
    await scan.scan()
    assert scan.is_complete
    assert scan.states[DEMO] is before


async def test_a_changed_workload_is_compared_again() -> None:
    store, workloads, scan = fleet(SET, NEW_IMAGE, running=[workload()])
    await scan.scan()
    written = rendered(workload(), SET, NEW_IMAGE)
    workloads.documents[key_of(written)] = written
    store.put(written)
    await scan.scan()
    assert by_pool(scan)["hangzhou"] == "overridden"


async def test_a_workload_whose_spec_alone_changed_in_a_file_is_compared_again() -> None:
    current = rendered(workload(), SET, NEW_IMAGE)
    _, workloads, scan = fleet(SET, NEW_IMAGE, running=[current])
    await scan.scan()
    assert by_pool(scan)["hangzhou"] == "overridden"
    edited = {**current, "spec": workload()["spec"]}
    workloads.documents[key_of(edited)] = edited
    workloads.revision += 1
    assert not scan.is_complete
    await scan.scan()
    assert by_pool(scan)["hangzhou"] == "rolls"


async def test_a_changed_node_pool_changes_the_rows_of_daemons() -> None:
    store, _, scan = fleet(yurt_app_daemon(), node_pool("east", {"region": "east"}))
    assert [list(row.pools) for row in await scan.list_rows()] == [["east"]]
    store.put(node_pool("south", {"region": "east"}))
    assert [list(row.pools) for row in await scan.list_rows()] == [["east", "south"]]


async def test_a_removed_subject_is_forgotten() -> None:
    store, _, scan = fleet(SET, NEW_IMAGE)
    await scan.scan()
    store.remove(DEMO)
    assert await scan.list_rows() == []
    assert scan.states == {}


async def test_rows_name_the_present_overrider() -> None:
    store, _, scan = fleet(SET)
    assert [row.overrider for row in await scan.list_rows()] == [""]
    store.put(NEW_IMAGE)
    assert [row.overrider for row in await scan.list_rows()] == ["demo1"]


async def test_a_scan_of_a_cluster_reads_only_workloads_whose_hash_differs() -> None:
    running = [workload(), rendered(workload(pool="beijing"), SET, NEW_IMAGE)]
    _, workloads, scan = fleet(SET, NEW_IMAGE, running=running, is_remote=True)
    await scan.scan()
    assert workloads.asked == ["demo-hangzhou-x"]
    assert count_states(scan.states) == {"error": 0, "rolls": 1, "overridden": 1, "unchanged": 0}


async def test_plans_of_two_subjects_are_compiled_in_different_turns_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subjects = [yurt_app_set(f"set-{number}") for number in range(8)]
    _, _, scan = fleet(*subjects)
    planned: set[str] = set()
    largest = 0
    plan = scan.plans.plan

    def note_subject(group_kind: Any, document: JSONObject, *given: Any, **named: Any) -> Any:
        planned.add(document["metadata"]["name"])
        return plan(group_kind, document, *given, **named)

    async def watch() -> None:
        nonlocal largest
        while True:
            largest = max(largest, len(planned))
            planned.clear()
            await asyncio.sleep(0)

    monkeypatch.setattr(scan.plans, "plan", note_subject)
    rows = await scan.list_rows()
    watching = asyncio.create_task(watch())
    found = await scan.compute([CellKey(row.key, row.pools[0], row.kinds[0]) for row in rows], {})
    watching.cancel()
    assert (len(found), largest) == (8, 1)


async def test_a_scan_compares_few_hashes_between_two_turns_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"pool-{number}" for number in range(1_000)]
    subject = yurt_app_set(pools=[pool(name) for name in names])
    running = [rendered(workload(pool=name), subject, NEW_IMAGE) for name in names[:2]]
    # All Deployments have the same hash, because no value of the overrider depends on the pool.
    running += [json.loads(json.dumps(running[0]).replace("pool-0", name)) for name in names[2:]]
    _, _, scan = fleet(subject, NEW_IMAGE, running=running, is_remote=True)
    planned = 0
    largest = 0
    plan = scan.plans.plan

    def count_plans(*given: Any, **named: Any) -> Any:
        nonlocal planned
        planned += 1
        return plan(*given, **named)

    async def watch() -> None:
        nonlocal planned, largest
        while True:
            largest, planned = max(largest, planned), 0
            await asyncio.sleep(0)

    monkeypatch.setattr(scan.plans, "plan", count_plans)
    watching = asyncio.create_task(watch())
    await scan.scan()
    watching.cancel()
    assert count_states(scan.states)["overridden"] == 1_000
    assert 0 < largest <= 100


async def test_a_page_reads_the_workloads_of_its_cells() -> None:
    running = [workload(), workload(pool="beijing")]
    _, workloads, scan = fleet(SET, NEW_IMAGE, running=running, is_remote=True)
    (row,) = await scan.list_rows()
    found = await scan.read_running(row, ["beijing"])
    assert workloads.asked == ["demo-beijing-x"]
    states = await scan.compute([cell_key("beijing")], found)
    assert states == {cell_key("beijing"): CellState("rolls", 1, "replaces 2 pods")}


async def test_a_started_scan_ends_and_is_not_started_twice() -> None:
    _, workloads, scan = fleet(SET, NEW_IMAGE, running=[workload()])
    scan.start()
    scan.start()
    assert scan._task is not None
    await scan._task
    assert workloads.asked == ["demo-hangzhou-x"]
    before = scan._task
    scan.start()
    assert scan._task is before
    await scan.close()


async def test_an_entry_that_breaks_one_subject_leaves_the_others() -> None:
    broken = overrider(
        entry("*", items=[image("none", "x:1")]), entry("*", patches=[{"operation": "remove", "path": "/spec/no"}])
    )
    _, _, scan = fleet(SET, yurt_app_set("other"), broken)
    await scan.scan()
    assert set(by_pool(scan).values()) == {"error"}
    assert {one.state for one in scan.states[DEMO._replace(name="other")].values()} == {"unchanged"}


async def test_the_scan_waits_while_a_page_is_in_progress() -> None:
    _, _, scan = fleet(SET, NEW_IMAGE)
    with scan.paused(), scan.paused():
        scan.start()
        for _ in range(50):
            await asyncio.sleep(0)
        assert scan.states == {}
    assert scan._task is not None
    await scan._task
    assert scan.is_complete


async def test_a_page_pauses_the_scan_within_a_subject() -> None:
    names = [f"p{number:03}" for number in range(100)]
    _, _, scan = fleet(yurt_app_set(pools=[pool(name) for name in names]), NEW_IMAGE)
    scan.start()
    while not scan.plans.compiled:
        await asyncio.sleep(0)
    with scan.paused():
        for _ in range(500):
            await asyncio.sleep(0)
        assert scan.states == {}
    assert scan._task is not None
    await scan._task
    assert len(scan.states[DEMO]) == 100
