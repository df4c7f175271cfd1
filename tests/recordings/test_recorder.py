"""The recorder: a bounded queue, a thread, samples, files that rotate, and failures that only count."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fleethook.recordings.recorder import (
    REASONS,
    Recorder,
    RecordFiles,
    RecordMetrics,
    make_recorder,
    record_reviews,
)
from fleethook.recordings.recording_format import FILE_NAME, Record
from fleethook.recordings.redaction import Redactor
from fleethook.server.reviews.records_and_traces import AnsweredReview, AskedCall, RecordSettingError
from fleethook.settings import Settings
from tests.recordings.builders import answered, read_lines
from tests.waiting import wait_for

MAX = 1 << 20
PLAIN = Redactor(b"k")
SECRET = {"request": {"uid": "1", "object": {"kind": "Secret", "apiVersion": "v1", "stringData": {"a": "hunter2!"}}}}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "records"


def noise(size: int) -> bytes:
    """Return a line that has about as many bytes when it is compressed."""
    return b'"' + os.urandom(size).hex().encode() + b'"\n'


def list_sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in directory.iterdir()]


def find_only(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_a_file_has_a_header_and_the_lines(directory: Path) -> None:
    files = RecordFiles(directory, max_bytes=MAX)
    files.write(b'{"a":1}\n')
    files.write(b'{"b":2}\n{"c":3}\n')
    files.close()
    header, *lines = read_lines(find_only(directory))
    assert header["format"] == "fleethook.io/records/v1"
    assert set(header) == {"format", "version", "started"}
    assert lines == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert FILE_NAME.fullmatch(find_only(directory).name)


def test_only_the_owner_may_read(directory: Path) -> None:
    former = os.umask(0)
    try:
        files = RecordFiles(directory, max_bytes=MAX)
    finally:
        os.umask(former)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(find_only(directory).stat().st_mode) == 0o600
    files.close()


def test_a_recording_without_reviews_leaves_no_file(directory: Path) -> None:
    RecordFiles(directory, max_bytes=MAX).close()
    assert list(directory.iterdir()) == []


def test_full_files_end_and_the_oldest_are_deleted(directory: Path) -> None:
    other = directory / "notes.txt"
    files = RecordFiles(directory, max_bytes=MAX)
    other.write_text("no recording")
    for _ in range(60):
        files.write(noise(50_000))
        assert sum(list_sizes(directory)) <= MAX + 1_000
    files.close()
    names = sorted(path.name for path in directory.iterdir() if path != other)
    numbers = [int(name[-len("000000.jsonl.gz") : -len(".jsonl.gz")]) for name in names]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 1
    assert sum(list_sizes(directory)) > MAX * 3 // 4
    assert other.exists()


def test_the_name_of_a_link_is_never_followed(directory: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"x" * 2 * MAX)
    files = RecordFiles(directory, max_bytes=MAX)
    link = directory / find_only(directory).name.replace("-000001", "-000002")
    link.symlink_to(target)
    for _ in range(3):
        files.write(noise(50_000))
    with pytest.raises(FileExistsError):
        files.write(noise(50_000))
    assert target.stat().st_size == 2 * MAX


def read_counts(metrics: RecordMetrics) -> dict[str, float]:
    """Return the samples: for dropped reviews by reason, for others by name."""
    return {
        sample.labels.get("reason") or "recorded": sample.value
        for collector in metrics.collectors()
        for family in collector.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


@pytest.fixture
def metrics() -> RecordMetrics:
    return RecordMetrics()


@pytest.fixture
def files(directory: Path) -> RecordFiles:
    return RecordFiles(directory, max_bytes=1 << 24)


def read_uids(directory: Path) -> list[str]:
    paths = sorted(directory.iterdir())
    return [line["review"]["request"]["uid"] for path in paths for line in read_lines(path)[1:]]


def review(uid: str, **members: Any) -> AnsweredReview:
    return answered({"request": {"uid": uid}}, uid=uid, **members)


class Stuck(Redactor):
    """A redactor that waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(b"k")
        self.entered = threading.Event()
        self.released = threading.Event()

    def redact(self, record: Record) -> Record:
        self.entered.set()
        self.released.wait()
        return super().redact(record)


def test_reviews_are_written_in_their_order(files: RecordFiles, metrics: RecordMetrics, directory: Path) -> None:
    recorder = Recorder(files, PLAIN, metrics)
    recorder.start()
    for number in range(500):
        recorder(review(str(number)))
    recorder.close()
    assert read_uids(directory) == [str(number) for number in range(500)]
    assert read_counts(metrics) == {"recorded": 500, **dict.fromkeys(REASONS, 0)}


def test_a_full_queue_drops_and_counts_reviews(files: RecordFiles, metrics: RecordMetrics, directory: Path) -> None:
    stuck = Stuck()
    recorder = Recorder(files, stuck, metrics, max_bytes=100_000)
    recorder.start()
    recorder(review("0"))
    stuck.entered.wait()
    call = AskedCall("webhook", "a", "k", answer={"allowed": True, "patch": "x" * 200_000})
    recorder(review("1", calls=(call,)))
    recorder(review("2"))
    stuck.released.set()
    recorder.close()
    assert read_uids(directory) == ["0", "2"]
    assert (read_counts(metrics)["overflow"], read_counts(metrics)["recorded"]) == (1, 2)


def test_samples_are_equal_on_all_servers_and_a_larger_one_contains_a_smaller_one(
    metrics: RecordMetrics, tmp_path: Path
) -> None:
    found = []
    for name, sample in (("a", 0.25), ("b", 0.25), ("c", 0.5)):
        recorder = Recorder(RecordFiles(tmp_path / name, max_bytes=1 << 24), PLAIN, metrics, sample=sample)
        recorder.start()
        for number in range(2000):
            recorder(review(f"uid-{number}"))
        recorder.close()
        found.append(set(read_uids(tmp_path / name)))
    assert found[0] == found[1] < found[2]
    assert 400 < len(found[0]) < 600


class FullDisk(RecordFiles):
    """Files on a disk that is full for a while."""

    is_full = True
    asked = 0

    def write(self, lines: bytes) -> None:
        self.asked += 1
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(lines)


def test_a_full_disk_is_only_counted_and_tried_again_later(
    metrics: RecordMetrics, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    disk = FullDisk(directory, max_bytes=1 << 24)
    recorder = Recorder(disk, PLAIN, metrics, clock=lambda: now[0])
    recorder.start()
    for number in range(3):
        recorder(review(str(number)))
        wait_for(lambda: read_counts(metrics)["write"] == number + 1)  # noqa: B023 - called within the iteration
    assert disk.asked == 1
    assert [record.message for record in caplog.records] == [
        "reviews are not recorded for 5 s, because writing failed: [Errno 28] No space left on device"
    ]
    disk.is_full = False
    now[0] += 5.0
    recorder(review("3"))
    recorder.close()
    assert read_uids(directory) == ["3"]


class Defect(Redactor):
    """A redactor with a defect in its first call."""

    is_first = True

    def redact(self, record: Record) -> Record:
        if self.is_first:
            self.is_first = False
            raise KeyError("a defect")
        return super().redact(record)


def test_a_defect_does_not_end_the_thread(
    files: RecordFiles, metrics: RecordMetrics, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(files, Defect(b"k"), metrics)
    recorder.start()
    recorder(review("0"))
    recorder(review("1"))
    recorder.close()
    assert read_uids(directory) == ["1"]
    assert read_counts(metrics)["error"] == 1
    assert "a review cannot be recorded" in caplog.text


def test_a_recorder_that_takes_too_long_is_left(
    files: RecordFiles, metrics: RecordMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = Stuck()
    recorder = Recorder(files, stuck, metrics, close_seconds=0.01)
    recorder.start()
    recorder(review("0"))
    stuck.entered.wait()
    recorder.close()
    assert "the last reviews are not recorded" in caplog.text
    stuck.released.set()


def test_a_recorder_leaves_secrets_out_and_hashes_fields_with_a_key_of_its_own(tmp_path: Path) -> None:
    body = {"request": {"uid": "1", "object": {"kind": "ConfigMap", "password": "hunter2!"}}}
    lines = []
    for name in ("a", "b"):
        metrics, registry = RecordMetrics(), CollectorRegistry()
        recorder = make_recorder(Settings(record_redact=["password"]), tmp_path / name, metrics)
        with record_reviews(recorder, metrics, registry):
            recorder(answered(SECRET))
            recorder(answered(body))
        lines.append(read_lines(find_only(tmp_path / name))[1:])
        assert registry.get_sample_value("fleethook_recorded_reviews_total") == 1
        assert registry.get_sample_value("fleethook_record_dropped_reviews_total", {"reason": "secret"}) == 1
    assert "hunter2!" not in repr(lines)
    assert lines[0][0]["redacted"] is True
    assert lines[0][0]["review"] != lines[1][0]["review"]


def test_a_directory_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordSettingError, match=r"record: .*/file/records: not a directory; give another --record"):
        make_recorder(Settings(), tmp_path / "file" / "records", RecordMetrics())
