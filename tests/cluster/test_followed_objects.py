"""The resources of several engines that a cluster follows."""

import asyncio
import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.cluster.followed_objects import Cluster, Followed, follow_manifests, run_in_background
from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS, NAMESPACES, NODE_POOLS
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import Store
from fleethook.settings import Settings
from tests.serving import EXAMPLES
from tests.waiting import NET

FOLLOWED = [Followed((NAMESPACES, DEFINITIONS)), Followed((NODE_POOLS, DEFINITIONS), (NAMESPACES,)), Followed()]


def test_a_resource_of_several_engines_is_followed_once_and_needed_if_one_needs_it() -> None:
    parts = [
        (part.name, part.needed) for part in Cluster(Settings(kubeconfig=Path("k")), Store(), FOLLOWED).source.parts()
    ]
    assert parts == [
        ("namespaces", True),
        ("customresourcedefinitions.apiextensions.k8s.io", True),
        ("nodepools.apps.openyurt.io", True),
    ]


def test_a_resource_that_no_engine_needs_is_advisory() -> None:
    cluster = Cluster(Settings(kubeconfig=Path("k")), Store(), [Followed((), (NAMESPACES,))])
    assert [part.needed for part in cluster.source.parts()] == [False]


STORY = EXAMPLES / "yurtappoverrider" / "story-2"


@pytest.fixture(autouse=True)
def restore_garbage_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


async def test_a_failed_task_is_reported_with_its_name_and_error() -> None:
    reports: list[str] = []
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise ValueError("a defect")

    async with run_in_background(fail(), name="source", ended=reports.append):
        await failed.wait()
    assert reports == ["source: ValueError: a defect"]


async def test_a_task_is_cancelled_at_the_end_without_a_report() -> None:
    reports: list[str] = []
    states: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            states.append("ended")

    async with run_in_background(wait(), name="source", ended=reports.append):
        await asyncio.sleep(0)
        assert states == []
    assert (states, reports) == (["ended"], [])


async def test_manifests_are_loaded_first_and_then_followed(tmp_path: Path) -> None:
    shutil.copy(STORY / "yurtappset.yaml", tmp_path)
    store = Store()
    counts: asyncio.Queue[int] = asyncio.Queue()

    async def changed() -> None:
        counts.put_nowait(sum(store.counts().values()))

    async with follow_manifests(ManifestSource([tmp_path], store, rescan_ms=100), changed=changed):
        assert counts.get_nowait() == 1
        shutil.copy(STORY / "overrider.yaml", tmp_path)
        assert await asyncio.wait_for(counts.get(), NET) == 2
