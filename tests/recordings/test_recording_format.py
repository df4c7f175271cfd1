"""The names of files and the members of records, which readers of other versions rely on."""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.recordings.recording_format import (
    FILE_NAME,
    Fault,
    RecordedCall,
    RecordEntry,
    RecordLine,
    RecordProblem,
    read_entries,
    read_lines,
    unwrap_body,
)
from tests.recordings.recordings import header, line


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b'{"kind":"A"}', b'{"kind":"A"}'),
        (b'{"text":"no JSON"}', b"no JSON"),
        (b'{"text":"{\\"text\\":\\"a\\"}"}', b'{"text":"a"}'),
        (b'{"base64":"//4="}', b"\xff\xfe"),
        (b'{"text":"a","kind":"A"}', b'{"text":"a","kind":"A"}'),
        (b'{"text":5}', b'{"text":5}'),
        (b"[]", b"[]"),
    ],
)
def test_bodies_are_those_that_were_received(raw: bytes, body: bytes) -> None:
    assert unwrap_body(msgspec.Raw(raw)) == body


WRITER = "0123abcd"
START = "20261122T211500Z"


@pytest.mark.parametrize(
    "name",
    [
        f"reviews-{START}-{WRITER}-00001.jsonl.gz",
        f"reviews-{START}-{WRITER.upper()}-000001.jsonl.gz",
        f"reviews-{START}-{WRITER}-000001.jsonl.gz.tmp",
        f"reviews-{START}-{WRITER}-000001.jsonl",
        f"../reviews-{START}-{WRITER}-000001.jsonl.gz",
    ],
)
def test_other_names_are_no_files_of_a_recording(name: str) -> None:
    assert FILE_NAME.fullmatch(name) is None


def test_an_answer_of_null_is_an_answer_and_an_absent_one_is_none() -> None:
    (null, absent) = msgspec.json.decode(
        b'[{"kind": "read", "name": "n", "key": "k", "answer": null}, {"kind": "read", "name": "n", "key": "k"}]',
        type=list[RecordedCall],
    )
    assert null.answer == msgspec.Raw(b"null")
    assert absent.answer is msgspec.UNSET


ONE = line({"kind": "AdmissionReview"}, {"response": {}})


def read(*lines: bytes) -> tuple[list[int], list[RecordProblem]]:
    found = list(read_entries(io.BytesIO(b"".join(one + b"\n" for one in lines)), "file"))
    return [one.line for one in found if isinstance(one, RecordEntry)], [
        one for one in found if isinstance(one, RecordProblem)
    ]


def test_records_have_their_place() -> None:
    assert read(header(), ONE, ONE) == ([2, 3], [])


@pytest.mark.parametrize(
    "content", [b"", b"some text", b"{}", b'{"kind":"Event"}', b'{"format":"audit.k8s.io/v1","version":"1","started":""}']
)  # fmt: skip
def test_a_foreign_file_is_one_problem(content: bytes) -> None:
    entries, problems = read(content, ONE)
    assert not entries
    assert problems == [RecordProblem("file", 1, "this is no recording of fleethook: the first line is no header")]


def test_a_newer_format_is_refused_as_a_whole() -> None:
    entries, problems = read(header(format="fleethook.io/records/v2", version="9.0"), ONE, b"not even JSON")
    assert not entries
    assert [one.line for one in problems] == [1]
    assert "fleethook.io/records/v2" in problems[0].reason
    assert "9.0" in problems[0].reason


def test_files_may_follow_each_other_and_a_newer_one_between_them_is_left_out() -> None:
    newer = header(format="fleethook.io/records/v2")
    entries, problems = read(header(), ONE, newer, b"unknown", ONE, header(), ONE)
    assert entries == [2, 7]
    assert [one.line for one in problems] == [3]


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (ONE[:-10], "the line is not JSON"),
        (b"", "the line is not JSON"),
        (b"\0" * 20, "the line is not JSON"),
        (ONE.replace(b"AdmissionReview", b"\0"), "the line is not JSON"),
        (ONE.replace(b'"time":"2026', b'"time":"\xff'), "the line is not JSON"),
        (b"{}", "the line is no record"),
        (b"[1]", "the line is no record"),
        (ONE.replace(b'"route":"/mutate', b'"route":5,"was":"/'), "the line is no record"),
        (ONE.replace(b'{"kind":', b'{"a":' * 100_000 + b'{"kind":'), "the line is"),
    ],
)
def test_a_damaged_line_is_reported_and_the_next_one_is_read(damaged: bytes, reason: str) -> None:
    entries, problems = read(header(), ONE, damaged, ONE)
    assert entries == [2, 4]
    assert [one.place for one in problems] == ["file:3"]
    assert problems[0].reason.startswith(reason)


def test_a_cut_file_has_the_records_before_the_cut() -> None:
    compressed = gzip.compress(b"\n".join([header(), *[ONE] * 500, b""]))
    found = list(read_entries(io.BytesIO(compressed[:-40]), "file"))
    assert sum(isinstance(one, RecordEntry) for one in found) > 400
    assert isinstance(found[-1], RecordProblem)


LINES = [b'{"number":%d,"text":"%s"}' % (number, b"x" * (number % 50)) for number in range(5_000)]
TEXT = b"\n".join(LINES) + b"\n"


def read_all_lines(content: bytes, **limits: int) -> tuple[list[bytes], list[Fault]]:
    found = list(read_lines(io.BytesIO(content), **limits))
    return [one.text for one in found if isinstance(one, RecordLine)], [one for one in found if isinstance(one, Fault)]


def test_the_end_of_a_file_that_a_server_writes_or_left_is_no_fault() -> None:
    compressor = zlib.compressobj(wbits=31)
    content = compressor.compress(TEXT) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert read_all_lines(content) == (LINES, [])


@pytest.mark.parametrize("damage", ["checksum", "data"])
def test_damaged_data_is_a_fault_after_the_lines_before_it(damage: str) -> None:
    compressed = gzip.compress(TEXT)
    wrong = zlib.crc32(b"another").to_bytes(4, "little")
    at = len(compressed) // 2
    content = compressed[:-8] + wrong + compressed[-4:] if damage == "checksum" else compressed[:at] + b"\xff" * 500
    lines, faults = read_all_lines(content)
    assert lines[:1_000] == LINES[:1_000]
    assert faults


def zeros(count: int) -> Iterator[bytes]:
    compressor = zlib.compressobj(9, wbits=31)
    for _ in range(count):
        yield compressor.compress(b"\0" * 1_000_000)
    yield compressor.flush()


def test_a_decompression_bomb_is_given_up() -> None:
    content = gzip.compress(b"first\n") + b"".join(zeros(40))
    lines, faults = read_all_lines(content, max_line=1_000)
    assert lines == [b"first"]
    assert faults == [Fault(2, "the line has more than 1000 bytes; the rest of the file is not read")]


class Broken(io.RawIOBase):
    """A disk that fails after the first bytes."""

    is_first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.is_first:
            raise OSError(5, "Input/output error")
        self.is_first = False
        buffer[:10] = b"one\ntwo\nth"
        return 10


def test_an_error_of_the_disk_is_a_fault() -> None:
    found = list(read_lines(io.BufferedReader(Broken())))
    assert [one.text for one in found if isinstance(one, RecordLine)] == [b"one", b"two"]
    assert [one.reason for one in found if isinstance(one, Fault)] == [
        "the file cannot be read: [Errno 5] Input/output error"
    ]


@given(st.binary(max_size=300), st.integers(0, 400), st.binary(max_size=20))
def test_damage_never_ends_with_an_exception(text: bytes, at: int, damage: bytes) -> None:
    content = gzip.compress(text)
    found = list(read_lines(io.BytesIO(content[:at] + damage + content[at + len(damage) :])))
    numbers = [one.number for one in found]
    assert numbers == sorted(numbers)
