"""Files of a recording: rotation, the shared limit, links, crashes and failing disks."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from fleethook.recordings.record import files as module
from fleethook.recordings.record.files import RecordFiles
from fleethook.recordings.recording_format import FILE_NAME
from tests.recordings.builders import read_lines, read_prefix

MAX = 1 << 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "records"


def noise(size: int) -> bytes:
    """Return a line that has about as many bytes when it is compressed."""
    return b'"' + os.urandom(size).hex().encode() + b'"\n'


def sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in directory.iterdir()]


def only(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_a_file_has_a_header_and_the_lines(directory: Path) -> None:
    files = RecordFiles(directory, max_bytes=MAX).start()
    files.write(b'{"a":1}\n')
    files.write(b'{"b":2}\n{"c":3}\n')
    files.close()
    header, *lines = read_lines(only(directory))
    assert header["format"] == "fleethook.io/records/v1"
    assert set(header) == {"format", "version", "started"}
    assert lines == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert FILE_NAME.fullmatch(only(directory).name)
    assert files.written == only(directory).stat().st_size


def test_only_the_owner_may_read(directory: Path) -> None:
    former = os.umask(0)
    try:
        RecordFiles(directory, max_bytes=MAX).start()
    finally:
        os.umask(former)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(only(directory).stat().st_mode) == 0o600


def test_each_write_can_be_read_at_once(directory: Path) -> None:
    files = RecordFiles(directory, max_bytes=MAX).start()
    assert [line["format"] for line in read_prefix(only(directory))] == ["fleethook.io/records/v1"]
    for count in range(1, 4):
        files.write(b"[%d]\n" % count)
        assert len(read_prefix(only(directory))) == count + 1


def test_a_recording_without_reviews_leaves_no_file(directory: Path) -> None:
    RecordFiles(directory, max_bytes=MAX).start().close()
    assert list(directory.iterdir()) == []


def test_full_files_end_and_the_oldest_are_deleted(directory: Path) -> None:
    files = RecordFiles(directory, max_bytes=MAX).start()
    for _ in range(60):
        files.write(noise(50_000))
        assert sum(sizes(directory)) <= MAX
    files.close()
    names = sorted(path.name for path in directory.iterdir())
    numbers = [int(name[-len("000000.jsonl.gz") : -len(".jsonl.gz")]) for name in names]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 1
    assert sum(sizes(directory)) > MAX * 3 // 4
    assert max(sizes(directory)) < MAX // 4
    for path in directory.iterdir():
        assert read_lines(path)[0]["format"] == "fleethook.io/records/v1"


def test_writers_share_the_limit(directory: Path) -> None:
    writers = [RecordFiles(directory, max_bytes=MAX, writers=3).start() for _ in range(3)]
    for number in range(90):
        writers[number % 3].write(noise(40_000))
        assert sum(sizes(directory)) <= MAX
    for writer in writers:
        writer.close()
    assert sum(sizes(directory)) <= MAX
    assert len({path.name.split("-")[2] for path in directory.iterdir()}) == 3


def test_files_of_a_former_process_are_deleted_first(directory: Path) -> None:
    former = RecordFiles(directory, max_bytes=MAX).start()
    for _ in range(8):
        former.write(noise(100_000))
    former.close()
    old = {path.name for path in directory.iterdir()}
    files = RecordFiles(directory, max_bytes=MAX).start()
    files.write(noise(400_000))
    left = old & {path.name for path in directory.iterdir()}
    assert left < old
    assert sorted(left) == sorted(old)[-len(left) :]


def test_a_file_that_is_being_written_is_not_deleted(directory: Path) -> None:
    other = RecordFiles(directory, max_bytes=MAX, writers=2).start()
    other.write(noise(50_000))
    files = RecordFiles(directory, max_bytes=MAX, writers=2).start()
    for _ in range(30):
        files.write(noise(60_000))
    other.write(b"[1]\n")
    other.close()
    assert any(read_lines(path)[-1] == [1] for path in directory.iterdir())


def test_other_files_in_the_directory_stay(directory: Path) -> None:
    directory.mkdir()
    others = ["notes.txt", "reviews-x.jsonl.gz", "reviews-20260101T000000Z-00000000-000001.jsonl.gz.bak"]
    for name in others:
        (directory / name).write_bytes(b"x" * MAX)
    files = RecordFiles(directory, max_bytes=MAX).start()
    for _ in range(20):
        files.write(noise(100_000))
    assert all((directory / name).stat().st_size == MAX for name in others)


def test_links_in_the_directory_are_not_followed(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir()
    target = tmp_path / "target"
    target.write_bytes(b"x" * MAX)
    link = directory / "reviews-20260101T000000Z-00000000-000001.jsonl.gz"
    link.symlink_to(target)
    files = RecordFiles(directory, max_bytes=MAX).start()
    for _ in range(20):
        files.write(noise(100_000))
    assert target.stat().st_size == MAX
    assert link.is_symlink()
    # A link with the name of the next file.
    monkeypatch.setattr(module, "name_file", lambda *_: link.name)
    files.close_file()
    with pytest.raises(FileExistsError):
        files.write(b"[1]\n")
    assert target.stat().st_size == MAX


def test_a_pipe_with_the_name_of_a_file_blocks_nothing_and_stays(directory: Path) -> None:
    directory.mkdir()
    pipe = directory / "reviews-20260101T000000Z-00000000-000001.jsonl.gz"
    os.mkfifo(pipe)
    files = RecordFiles(directory, max_bytes=MAX).start()
    for _ in range(20):
        files.write(noise(100_000))
    assert pipe.is_fifo()


def test_a_block_larger_than_the_limit_is_refused(directory: Path) -> None:
    files = RecordFiles(directory, max_bytes=MAX).start()
    with pytest.raises(OSError, match="does not fit"):
        files.write(noise(3 * MAX))
    files.write(b"[1]\n")
    assert sum(sizes(directory)) <= MAX


def test_a_directory_that_cannot_be_written_to_is_an_error_at_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        RecordFiles(file, max_bytes=MAX)
    with pytest.raises(OSError, match="Not a directory"):
        RecordFiles(file / "below", max_bytes=MAX)


@pytest.fixture
def broken_disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk that is full after as many bytes as the list says."""
    left = [1 << 40]
    write = os.write

    def write_some(descriptor: int, data: bytes) -> int:
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, data[: left[0]])
        left[0] -= count
        return count

    monkeypatch.setattr(module.os, "write", write_some)
    return left


@pytest.mark.parametrize("room", [0, 1, 5000])
def test_a_full_disk_leaves_a_readable_file_and_the_next_write_begins_another(
    directory: Path, broken_disk: list[int], room: int
) -> None:
    files = RecordFiles(directory, max_bytes=MAX).start()
    files.write(b"[1]\n")
    broken_disk[0] = room
    with pytest.raises(OSError, match="No space left"):
        files.write(noise(20_000))
    broken_disk[0] = 1 << 40
    files.write(b"[2]\n")
    files.close()
    first, second = sorted(directory.iterdir())
    assert read_prefix_of_truncated(first)[:2] == [b'{"format"', b"[1]"]
    assert read_lines(second)[1:] == [[2]]


def read_prefix_of_truncated(path: Path) -> list[bytes]:
    return [line[:9] for line in zlib.decompressobj(31).decompress(path.read_bytes()).splitlines()]


def test_a_writer_that_stopped_does_not_block_others(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = RecordFiles(directory, max_bytes=MAX).start()
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.0)
    other = os.open(directory, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    files.write(b"[1]\n")
    os.close(other)
    assert read_prefix(only(directory))[1:] == [[1]]


KILLED = """
import os, signal, sys
from pathlib import Path
from fleethook.recordings.record.files import RecordFiles
files = RecordFiles(Path(sys.argv[1]), max_bytes=1 << 20).start()
for number in range(50):
    files.write(b"[%d]\\n" % number)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_all_written_lines(directory: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, directory], check=False)
    assert killed.returncode == -9
    assert read_prefix(only(directory))[1:] == [[number] for number in range(50)]
    # Its file is not in use any more.
    files = RecordFiles(directory, max_bytes=MAX).start()
    for _ in range(12):
        files.write(noise(100_000))
    assert not any(read_prefix_of_truncated(path)[1:2] == [b"[0]"] for path in directory.iterdir())
