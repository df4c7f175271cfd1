"""The parts of a recorded review, and jobs that ask the reviews of a search again."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleethook.app import list_indexes
from fleethook.cluster.store import Store
from fleethook.console.reviews import review_detail_and_replay
from fleethook.console.reviews.review_detail_and_replay import (
    ReplayJob,
    ReviewReplay,
    describe_outcome,
    describe_review,
    find_state,
    list_changes,
)
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.recordings.recording_format import CallName, RecordedCall, RecordEntry, read_entries
from fleethook.recordings.replay.decision_changes import DiffLine, OutcomeDifference, RecordPlace, make_change
from fleethook.recordings.replay.review_replay import Replayed, Report
from fleethook.work.threads_and_gc import Worker
from tests.builders import workload
from tests.console.recorded import objects, record_workloads
from tests.console.reviews.test_review_index import asked, entry_of
from tests.recordings.builders import to_patch
from tests.recordings.replaying import kinds
from tests.recordings.replaying import replay as replay_records
from tests.waiting import NET

ENTRY = entry_of(asked(name="web"))
CALL = CallName("webhook", "hooks", "w.example.org")


def changed(aspect: str = "message", after: object = ("b",)) -> Replayed:
    difference = OutcomeDifference(aspect, ("a",), after)  # type: ignore[arg-type]
    return Replayed(ENTRY, make_change(ENTRY.record, RecordPlace("file", 2), b"{}", differences=[difference]))


def undecidable() -> Replayed:
    missing = {CALL: "no recorded answer"}
    return Replayed(ENTRY, make_change(ENTRY.record, RecordPlace("file", 2), b"{}", missing=missing.items()))


def test_each_result_has_a_state() -> None:
    results = [
        Replayed(ENTRY),
        changed(),
        undecidable(),
        Replayed(ENTRY, skipped="x"),
        Replayed(ENTRY, unknown_route=True),
    ]
    assert list(map(find_state, results)) == ["same", "changed", "undecidable", "skipped", "skipped"]


def test_the_outcome_of_one_review_explains_itself() -> None:
    assert describe_outcome(Replayed(ENTRY, unasked=[CALL])).unasked == ["webhook hooks/w.example.org"]
    assert (
        describe_outcome(Replayed(ENTRY, unknown_route=True)).text
        == f"this fleethook has no route {ENTRY.record.route}"
    )
    lines = [f"{line.sign}{line.text}" for line in describe_outcome(changed()).lines]
    assert lines == [" message", "-a", "+b"]
    assert describe_outcome(undecidable()).lines[0].text == "webhook hooks/w.example.org: no recorded answer"


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
        return ReplayJob(reviews, self.replay.version, self.index.each(reviews))

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
    monkeypatch.setattr(review_detail_and_replay, "REVIEWS_IN_A_REQUEST", 4)
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


OBJECT = {"spec": {"replicas": 1}, "data": {"password": "c2VjcmV0"}}
PATCH = to_patch({"op": "replace", "path": "/spec/replicas", "value": 3})
PATCHED = {"kind": "AdmissionReview", "response": {"allowed": True, "patch": PATCH, "warnings": ["careful"]}}


def test_a_review_shows_changes_warnings_and_its_body() -> None:
    found = describe_review(entry_of(asked(object=OBJECT), PATCHED, redacted=True))
    assert (found.verdict, found.status, found.warnings, found.redacted) == ("patched", 200, ("careful",), True)
    assert found.changes == [DiffLine(" ", "object /spec/replicas"), DiffLine("-", "1"), DiffLine("+", "3")]
    assert '"replicas": 1' in found.review


def test_a_refusal_shows_code_message_and_causes() -> None:
    status = {
        "code": 422,
        "reason": "Invalid",
        "message": "no",
        "details": {"causes": [{"field": "a", "message": "b"}]},
    }
    found = describe_review(
        entry_of(asked(), {"kind": "AdmissionReview", "response": {"allowed": False, "status": status}})
    )
    assert (found.verdict, found.code, found.message) == ("denied", "422 Invalid", ("no", "a: b"))
    assert found.changes == []


def test_the_asked_webhooks_and_scripts_have_their_answers() -> None:
    calls: list[dict[str, Any]] = [
        {
            "kind": "webhook",
            "name": "w.example.org",
            "key": "k",
            "configuration": "hooks",
            "cluster": "root:a",
            "answer": {"allowed": True},
        },
        {"kind": "script", "name": "s", "key": "k2", "error": "it failed"},
    ]
    made = [RecordedCall(**{**one, **({"answer": _raw(one["answer"])} if "answer" in one else {})}) for one in calls]
    webhook, script = describe_review(entry_of(asked(), PATCHED, calls=made)).calls
    assert (webhook.name, webhook.cluster, webhook.error) == ("hooks/w.example.org", "root:a", "")
    assert '"allowed": true' in webhook.answer.text
    assert (script.name, script.answer, script.error) == ("s", None, "it failed")


def _raw(value: Any) -> Any:
    import msgspec  # noqa: PLC0415 - beside its one use

    return msgspec.Raw(msgspec.json.encode(value))


def test_a_result_of_an_interpreter_is_shown() -> None:
    answer = {"kind": "ResourceInterpreterContext", "response": {"uid": "u", "successful": True, "healthy": True}}
    found = describe_review(entry_of(asked(), answer))
    assert '"healthy": true' in found.result.text


def test_patches_that_cannot_be_used_are_explained() -> None:
    document = asked(object=OBJECT)
    assert list_changes(document, None) == []
    assert list_changes(document, "the patch is damaged: x") == [DiffLine(" ", "the patch is damaged: x")]
    (line,) = list_changes(document, [{"op": "remove", "path": "/missing"}])
    assert line.text.startswith("the patch does not apply: ")
    assert list_changes(5, [{"op": "remove", "path": "/a"}])[0].text.startswith("the patch does not apply")


def test_bodies_of_any_shape_are_shown() -> None:
    assert describe_review(entry_of({"text": "<script>"})).review == "<script>"
    assert describe_review(entry_of({"base64": "*"})).review.startswith("the body is damaged")
