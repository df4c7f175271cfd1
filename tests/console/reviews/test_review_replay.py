"""Recorded reviews asked again with the objects of a store."""

from pathlib import Path

import pytest

from fleethook.app import INDEXES
from fleethook.cluster.store import Store
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.console.reviews.review_replay import ReviewReplay
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.recordings.read.reader import Entry
from tests.builders import workload
from tests.console.recorded import objects, record_workloads
from tests.recordings.replaying import kinds


@pytest.fixture
async def entries(tmp_path: Path) -> list[Entry]:
    """Records of a workload of the subject, and of one without an owner."""
    await record_workloads(tmp_path, workload(owners=[]))
    index = ReviewIndex(tmp_path)
    return await index.load((await index.wait()).reviews)


async def test_the_outcome_follows_the_objects_of_the_store(entries: list[Entry]) -> None:
    store = Store(INDEXES)
    replay = ReviewReplay(store)
    for document in objects():
        store.put(document)
    assert kinds(await replay.replay(entries)) == [(), ()]
    for document in objects("3.0"):
        store.put(document)
    assert kinds(await replay.replay(entries)) == [("object",), ()]
    (bound,) = store.keys(YURT_APP_OVERRIDER)
    store.remove(bound)
    assert kinds(await replay.replay(entries)) == [("object",), ()]
    await replay.close()


async def test_the_version_changes_with_the_objects_of_reviews() -> None:
    store = Store(INDEXES)
    replay = ReviewReplay(store)
    for document in objects():
        store.put(document)
    assert replay.version == 2
    store.put(workload())
    assert replay.version == 2
    await replay.close()
