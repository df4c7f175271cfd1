"""Jobs that ask the reviews of a search again."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.app import list_indexes
from fleethook.cluster.store import Store
from fleethook.console.reviews import review_search_and_replay
from fleethook.console.reviews.review_index import VERDICTS, ReviewIndex, ReviewSummary
from fleethook.console.reviews.review_search_and_replay import (
    SORTS,
    ReplayJob,
    ReviewQuery,
    ReviewReplay,
    encode_query,
    find_reviews,
    list_choices,
    parse_query,
)
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.recordings.recording_format import RecordEntry, read_entries
from fleethook.recordings.replay.review_replay import Report
from fleethook.work.threads_and_gc import Worker
from tests.builders import workload
from tests.console.recorded import objects, record_workloads
from tests.recordings.replaying import kinds
from tests.recordings.replaying import replay as replay_records
from tests.waiting import NET


@pytest.fixture
async def entries(tmp_path: Path) -> list[RecordEntry]:
    """Records of a workload of the subject, and of one without an owner."""
    await record_workloads(tmp_path, workload(owners=[]))
    index = ReviewIndex(tmp_path, patience=NET)
    return await index.load((await index.find()).reviews)


async def test_the_outcome_follows_the_objects_of_the_store(entries: list[RecordEntry]) -> None:
    store = Store(list_indexes())
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


class Bench(NamedTuple):
    directory: Path
    index: ReviewIndex
    replay: ReviewReplay
    worker: Worker

    async def begin(self) -> ReplayJob:
        reviews = (await self.index.find()).reviews
        return ReplayJob(ReviewQuery(), reviews, self.replay.version, self.index.each(reviews))

    async def finish(self, job: ReplayJob) -> int:
        """Return the number of requests until the job ends."""
        requests = 0
        while job.is_running:
            await job.advance(self.replay, self.worker)
            requests += 1
        return requests


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """Eleven recorded reviews, one without an owner; the objects have another image now."""
    monkeypatch.setattr(review_search_and_replay, "REVIEWS_IN_A_REQUEST", 4)
    await record_workloads(tmp_path, *(workload() for _ in range(9)), workload(owners=[]))
    store = Store(list_indexes())
    made = Bench(tmp_path, ReviewIndex(tmp_path, patience=NET), ReviewReplay(store), Worker())
    for document in objects("3.0"):
        store.put(document)
    yield made
    await made.replay.close()


def summarize(report: Report) -> dict[str, Any]:
    return {
        name: value for name, value in vars(report).items() if name != "groups"
    } | {"groups": {name: (one.count, one.example.line) for name, one in report.groups.items()}}  # fmt: skip


async def test_the_result_is_that_of_the_command(bench: Bench) -> None:
    job = await bench.begin()
    assert await bench.finish(job) == 3
    with (bench.directory / "reviews.jsonl").open("rb") as stream:
        entries = [one for one in read_entries(stream, "reviews.jsonl") if isinstance(one, RecordEntry)]
    expected = Report()
    for one in await replay_records(entries, objects("3.0")):
        expected.add(one)
    assert summarize(job.report) == summarize(expected)
    assert (job.report.changed, job.report.same, job.gone) == (10, 1, 0)
    assert [one.line for one in job.changed] == list(range(2, 12))


async def test_a_request_asks_a_bounded_number_of_reviews(bench: Bench) -> None:
    job = await bench.begin()
    await job.advance(bench.replay, bench.worker)
    assert job.report.reviews == 4
    job.stop()
    await job.advance(bench.replay, bench.worker)
    assert (job.report.reviews, job.is_stopped, job.is_running, job.is_done) == (4, True, False, False)


async def test_reviews_whose_file_was_deleted_are_counted(bench: Bench) -> None:
    job = await bench.begin()
    (bench.directory / "reviews.jsonl").unlink()
    await bench.finish(job)
    assert (job.report.reviews, job.gone) == (0, 11)
    job.stop()
    assert job.is_done
    assert not job.is_stopped


def summary(number: int = 0, **members: Any) -> ReviewSummary:
    known: dict[str, Any] = {
        "file": 0, "line": number, "time": f"2026-11-22T10:00:{number:02}.000000Z", "route": "/r", "cluster": "",
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": f"web-{number}", "operation": "CREATE",
        "verdict": "allowed", "seconds": number / 1000, "uid": f"u-{number}",
    }  # fmt: skip
    return ReviewSummary(**{**known, **members})


def lines(query: ReviewQuery, *reviews: ReviewSummary) -> list[int]:
    return [one.line for one in find_reviews(reviews, query)]


REVIEWS = [
    summary(1, route="/a", verdict="patched"),
    summary(2, kind="StatefulSet", cluster="root:a"),
    summary(3, name="Other", verdict="denied", uid="abc"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ReviewQuery(), [3, 2, 1]),
        (ReviewQuery(route="/a"), [1]),
        (ReviewQuery(kind="StatefulSet"), [2]),
        (ReviewQuery(cluster="root:a"), [2]),
        (ReviewQuery(verdict="denied"), [3]),
        (ReviewQuery(text="SHOP/OTHER"), [3]),
        (ReviewQuery(text="abc"), [3]),
        (ReviewQuery(text="ABC"), []),
        (ReviewQuery(text="web"), [2, 1]),
        (ReviewQuery(slower=2), [3, 2]),
        (ReviewQuery(since="2026-11-22T10:00:02"), [3, 2]),
        (ReviewQuery(until="2026-11-22T10:00:02"), [1]),
        (ReviewQuery(sort="oldest"), [1, 2, 3]),
        (ReviewQuery(sort="slowest", verdict=""), [3, 2, 1]),
        (ReviewQuery(kind="Deployment", text="web"), [1]),
    ],
)
def test_a_search_finds_the_matching_reviews_in_its_order(query: ReviewQuery, found: list[int]) -> None:
    assert lines(query, *REVIEWS) == found


TIMES = st.text(st.characters(codec="utf-8", exclude_characters=" "), max_size=9).map(str.strip)


@given(
    st.builds(
        ReviewQuery,
        route=st.text(max_size=9).map(str.strip), kind=st.text(max_size=9).map(str.strip),
        text=st.text(max_size=9).map(str.strip), cluster=st.text(max_size=9).map(str.strip),
        verdict=st.sampled_from(["", *VERDICTS]), slower=st.integers(0, 9999).map(float),
        since=TIMES, until=TIMES,
        sort=st.sampled_from(SORTS), page=st.integers(1, 99),
    )
)  # fmt: skip
def test_a_url_keeps_its_search(query: ReviewQuery) -> None:
    from urllib.parse import parse_qsl  # noqa: PLC0415 - beside its one use

    assert parse_query(dict(parse_qsl(encode_query(query), keep_blank_values=True))) == query


def test_the_choices_are_the_values_that_occur() -> None:
    choices = list_choices([*REVIEWS, summary(4, kind="")])
    assert choices == (["/a", "/r"], ["Deployment", "StatefulSet"], ["root:a"])
