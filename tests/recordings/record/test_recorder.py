"""The recorder: a bounded queue, a thread, samples, and failures that only count."""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fleethook.recordings.record import recorder as module
from fleethook.recordings.record.files import RecordFiles
from fleethook.recordings.record.lines import Lines
from fleethook.recordings.record.recorder import (
    REASONS,
    Recorder,
    RecordMetrics,
    Throttle,
    make_encoder,
    make_recorder,
    record_reviews,
    time_thread,
)
from fleethook.server.reviews.recording import AnsweredReview, AskedCall, RecordSettingError
from fleethook.settings import Settings
from tests.recordings.builders import answered, encoder, read_lines
from tests.waiting import wait_for


class Core:
    """A core on which the recorder and the event loop work."""

    def __init__(self) -> None:
        self.now = self.event_loop = self.recorder = 0.0
        self.throttle = Throttle(lambda: self.event_loop, recorder=lambda: self.recorder, clock=lambda: self.now)

    def serve(self, seconds: float, *, idle: float = 0.0) -> None:
        """Have the event loop work, and then wait."""
        self.event_loop += seconds
        self.now += seconds + idle

    def record(self, seconds: float = 0.01) -> float:
        """Have the recorder work, and return the seconds to rest."""
        self.throttle.begin()
        self.recorder += seconds
        self.now += seconds
        return self.throttle.end()


@pytest.mark.parametrize(("idle", "rest"), [(1.0, 0.0), (0.5, 0.0), (0.1, 0.6567), (0.0, 0.6567)])
def test_the_recorder_rests_while_the_event_loop_is_busy(idle: float, rest: float) -> None:
    core = Core()
    for _ in range(3):
        core.serve(1.0, idle=idle)
        assert core.record() == pytest.approx(rest, abs=1e-4)


def test_the_recorder_does_not_rest_once_the_event_loop_is_idle() -> None:
    core = Core()
    core.serve(1.0)
    assert core.record() > 0.0
    core.serve(0.0, idle=1.0)
    assert core.record() == 0.0


def test_a_short_time_changes_no_verdict() -> None:
    core = Core()
    core.serve(1.0)
    assert core.record() > 0.0
    core.serve(0.0, idle=0.01)
    assert core.record() > 0.0


def test_a_rest_is_bounded() -> None:
    core = Core()
    core.serve(1.0)
    assert core.record(5.0) == 1.0


def test_the_time_of_another_thread_grows_with_its_work() -> None:
    """The thread works until it has taken processor time, which needs no certain duration."""
    found: list[float] = []
    ready, go_on = threading.Event(), threading.Event()

    def work() -> None:
        ready.set()
        while not go_on.is_set():
            pass

    worker = threading.Thread(target=work)
    worker.start()
    ready.wait()
    assert worker.ident is not None
    spent = time_thread(worker.ident)
    found.append(spent())
    while spent() <= found[0]:
        pass
    go_on.set()
    worker.join()


def read(metrics: RecordMetrics) -> dict[str, float]:
    """Return the samples: for dropped reviews by reason, for others by name."""
    return {
        sample.labels.get("reason") or sample.name: sample.value
        for collector in metrics.collectors()
        for family in collector.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


@pytest.fixture
def metrics() -> RecordMetrics:
    return RecordMetrics()


def test_all_series_exist_before_the_first_review(metrics: RecordMetrics) -> None:
    assert read(metrics) == {
        "fleethook_recorded_reviews_total": 0,
        "fleethook_record_bytes_total": 0,
        "fleethook_record_errors_total": 0,
        **dict.fromkeys(REASONS, 0),
    }


def test_each_event_counts_in_its_own_series(metrics: RecordMetrics) -> None:
    metrics.add_recorded(3)
    metrics.add_bytes(700)
    metrics.add_error()
    metrics.add_dropped("write", 2)
    metrics.add_dropped("redaction", 0)
    assert read(metrics) == {
        "fleethook_recorded_reviews_total": 3,
        "fleethook_record_bytes_total": 700,
        "fleethook_record_errors_total": 1,
        "overflow": 0,
        "redaction": 0,
        "write": 2,
        "error": 0,
    }


def test_overflows_are_published_once(metrics: RecordMetrics) -> None:
    metrics.overflowed = 2
    assert read(metrics)["overflow"] == 0
    metrics.publish()
    metrics.publish()
    assert read(metrics)["overflow"] == 2
    metrics.overflowed += 3
    metrics.publish()
    assert read(metrics)["overflow"] == 5


class Counts:
    """The numbers of the metrics."""

    def __init__(self) -> None:
        self.metrics = RecordMetrics()

    def read(self) -> dict[str, float]:
        found = {}
        for collector in self.metrics.collectors():
            for family in collector.collect():
                for sample in family.samples:
                    if sample.name.endswith("_total"):
                        name = sample.name.removeprefix("fleethook_").removesuffix("_total")
                        found[sample.labels.get("reason", name)] = sample.value
        return found

    def wait(self, name: str, number: int) -> None:
        wait_for(lambda: self.read()[name] == number)


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def files(tmp_path: Path) -> RecordFiles:
    return RecordFiles(tmp_path / "records", max_bytes=1 << 24).start()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


def uids(tmp_path: Path) -> list[str]:
    paths = sorted((tmp_path / "records").iterdir())
    return [line["review"]["request"]["uid"] for path in paths for line in read_lines(path)[1:]]


def review(uid: str, **members: Any) -> AnsweredReview:
    return answered({"request": {"uid": uid}}, uid=uid, **members)


def offer(recorder: Recorder, review: AnsweredReview) -> None:
    """Ask whether a review is wanted, as an endpoint does, and pass it on."""
    if recorder.wants(review.uid, review.consumer, review.body, review.answer):
        recorder(review)


class Stuck:
    """An encoder that waits until it may go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()

    def encode(self, reviews: Sequence[AnsweredReview]) -> Lines:
        self.entered.set()
        self.released.wait()
        return encoder().encode(reviews)


def test_reviews_are_written_in_their_order(files: RecordFiles, counts: Counts, tmp_path: Path) -> None:
    recorder = Recorder(files, encoder().encode, counts.metrics)
    recorder.start()
    for number in range(500):
        offer(recorder, review(str(number)))
    recorder.close()
    assert uids(tmp_path) == [str(number) for number in range(500)]
    found = counts.read()
    # The header and the end of the file are not counted.
    assert 0 < found.pop("record_bytes") <= files.written
    assert found == {
        "recorded_reviews": 500, "overflow": 0, "redaction": 0, "write": 0, "error": 0, "record_errors": 0
    }  # fmt: skip


def test_the_thread_writes_while_the_server_runs(files: RecordFiles, counts: Counts) -> None:
    recorder = Recorder(files, encoder().encode, counts.metrics)
    recorder.start()
    for number in range(3):
        offer(recorder, review(str(number)))
        counts.wait("recorded_reviews", number + 1)
    recorder.close()


def test_a_consumer_with_many_reviews_leaves_room_for_another(
    files: RecordFiles, counts: Counts, tmp_path: Path
) -> None:
    """Of the room for 27 reviews, one gets eight ninths."""
    stuck, size = Stuck(), module._OVERHEAD_BYTES + len(review("00").body) + len(review("00").answer)
    recorder = Recorder(files, stuck.encode, counts.metrics, max_bytes=27 * size)
    recorder.start()
    offer(recorder, review("00"))
    stuck.entered.wait()
    for number in range(1, 31):
        offer(recorder, review(f"{number:02d}", consumer="greedy"))
    offer(recorder, review("99", consumer="modest"))
    stuck.released.set()
    counts.wait("recorded_reviews", 26)
    offer(recorder, review("31", consumer="greedy"))
    recorder.close()
    assert uids(tmp_path) == [*(f"{number:02d}" for number in range(25)), "99", "31"]
    assert (counts.read()["overflow"], counts.read()["recorded_reviews"]) == (6, 27)


def test_answers_of_calls_count_for_the_queue(files: RecordFiles, counts: Counts) -> None:
    stuck = Stuck()
    recorder = Recorder(files, stuck.encode, counts.metrics, max_bytes=100_000)
    recorder.start()
    offer(recorder, review("0"))
    stuck.entered.wait()
    call = AskedCall("webhook", "a", "k", answer={"allowed": True, "patch": "x" * 200_000})
    offer(recorder, review("1", calls=(call,)))
    stuck.released.set()
    recorder.close()
    assert counts.read()["overflow"] == 1


def test_a_sample_is_the_same_on_all_servers(counts: Counts, tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        files = RecordFiles(tmp_path / name / "records", max_bytes=1 << 24).start()
        recorder = Recorder(files, encoder().encode, counts.metrics, sample=0.25)
        recorder.start()
        for number in range(2000):
            offer(recorder, review(f"uid-{number}"))
        recorder.close()
        found.append(uids(tmp_path / name))
    assert found[0] == found[1]
    assert 400 < len(found[0]) < 600


def test_a_larger_sample_contains_a_smaller_one(counts: Counts, tmp_path: Path) -> None:
    found = []
    for sample in (0.1, 0.5):
        files = RecordFiles(tmp_path / str(sample) / "records", max_bytes=1 << 24).start()
        recorder = Recorder(files, encoder().encode, counts.metrics, sample=sample)
        recorder.start()
        for number in range(500):
            offer(recorder, review(f"uid-{number}"))
        recorder.close()
        found.append(set(uids(tmp_path / str(sample))))
    assert found[0] < found[1]


class FullDisk:
    """Files on a disk that is full for a while."""

    def __init__(self, files: RecordFiles) -> None:
        self.files = files
        self.is_full = True
        self.asked = 0

    def start(self) -> None:
        self.files.start()

    @property
    def written(self) -> int:
        return self.files.written

    def write(self, lines: bytes) -> None:
        self.asked += 1
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.files.write(lines)

    def close(self) -> None:
        self.files.close()


def test_a_full_disk_is_only_counted_and_tried_again_later(
    files: RecordFiles,
    counts: Counts,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    disk: Any = FullDisk(files)
    recorder = Recorder(disk, encoder().encode, counts.metrics)
    recorder.start()
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            offer(recorder, review(str(number)))
            counts.wait("write", number + 1)
    assert (disk.asked, counts.read()["record_errors"]) == (1, 1)
    assert [record.message for record in caplog.records] == [
        "reviews are not recorded for 5 s, because writing failed: [Errno 28] No space left on device"
    ]
    disk.is_full = False
    now[0] += 5.0
    offer(recorder, review("3"))
    recorder.close()
    assert uids(tmp_path) == ["3"]


def test_a_defect_does_not_end_the_thread(
    files: RecordFiles, counts: Counts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = iter([True, False])

    def encode(reviews: Sequence[AnsweredReview]) -> Lines:
        if next(failing):
            raise KeyError("a defect")
        return encoder().encode(reviews)

    recorder = Recorder(files, encode, counts.metrics)
    recorder.start()
    offer(recorder, review("0"))
    counts.wait("error", 1)
    offer(recorder, review("1"))
    recorder.close()
    assert uids(tmp_path) == ["1"]
    assert "recording reviews failed" in caplog.text


def test_a_recorder_that_takes_too_long_is_left(
    files: RecordFiles, counts: Counts, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.01)
    stuck = Stuck()
    recorder = Recorder(files, stuck.encode, counts.metrics)
    recorder.start()
    offer(recorder, review("0"))
    stuck.entered.wait()
    recorder.close()
    assert "the last reviews are not recorded" in caplog.text
    stuck.released.set()


def test_threads_of_several_recorders_share_a_directory(counts: Counts, tmp_path: Path) -> None:
    recorders = []
    for _ in range(3):
        files = RecordFiles(tmp_path / "records", max_bytes=1 << 24, writers=3).start()
        recorders.append(Recorder(files, encoder().encode, RecordMetrics()))
    for recorder in recorders:
        recorder.start()
    for number in range(300):
        recorders[number % 3](review(str(number)))
    for recorder in recorders:
        recorder.close()
    assert sorted(map(int, uids(tmp_path))) == list(range(300))


SECRET = {"request": {"uid": "1", "object": {"kind": "Secret", "apiVersion": "v1", "stringData": {"a": "hunter2!"}}}}


def test_two_encoders_hash_with_keys_of_their_own() -> None:
    one, other = (make_encoder([]).encode([answered(SECRET)]).text for _ in range(2))
    assert b"hunter2!" not in one + other
    assert json.loads(one)["review"] != json.loads(other)["review"]


def test_named_fields_are_redacted_beside_secrets() -> None:
    body = {"request": {"uid": "1", "object": {"kind": "ConfigMap", "password": "hunter2!"}}}
    assert b"hunter2!" in make_encoder([]).encode([answered(body)]).text
    assert b"hunter2!" not in make_encoder(["password"]).encode([answered(body)]).text


@pytest.mark.parametrize("text", ["", "/", "Secret:", "a b"])
def test_a_field_that_cannot_be_read_names_the_setting(text: str) -> None:
    with pytest.raises(RecordSettingError, match="record_redact: "):
        make_encoder(["password", text])


def test_a_recorder_writes_the_rest_of_its_queue_at_the_end_and_publishes_its_metrics(tmp_path: Path) -> None:
    metrics, registry = RecordMetrics(), CollectorRegistry()
    recorder = make_recorder(Settings(record_redact=["password"]), tmp_path / "records", metrics)
    with record_reviews(recorder, metrics, registry):
        recorder(answered(SECRET))
    (file,) = (tmp_path / "records").iterdir()
    _header, line = read_lines(file)
    assert line["redacted"] is True
    assert registry.get_sample_value("fleethook_recorded_reviews_total") == 1


def test_a_directory_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_recorder(Settings(), tmp_path / "file" / "records", RecordMetrics())
