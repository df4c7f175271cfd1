import asyncio
from pathlib import Path

import yaml

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.engines.overrider.pages.workloads import ClusterWorkloads, ManifestWorkloads
from fleethook.model.json import JSONObject
from tests.builders import workload

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
