import gzip
import io
import json

import pytest

from fleethook.recordings.read.reader import Entry, Problem, read_entries
from tests.recordings.recordings import header, line

ONE = line({"kind": "AdmissionReview"}, {"response": {}})


def read(*lines: bytes) -> tuple[list[int], list[Problem]]:
    found = list(read_entries(io.BytesIO(b"".join(one + b"\n" for one in lines)), "file"))
    return [one.line for one in found if isinstance(one, Entry)], [one for one in found if isinstance(one, Problem)]


def test_records_have_their_place() -> None:
    assert read(header(), ONE, ONE) == ([2, 3], [])


def test_unknown_members_are_ignored() -> None:
    later = json.dumps({**json.loads(ONE), "signature": {"of": "later"}}).encode()
    assert read(header(compression="none"), later) == ([2], [])


@pytest.mark.parametrize(
    "content", [b"", b"some text", b"{}", b'{"kind":"Event"}', b'{"format":"audit.k8s.io/v1","version":"1","started":""}']
)  # fmt: skip
def test_a_foreign_file_is_one_problem(content: bytes) -> None:
    entries, problems = read(content, ONE)
    assert not entries
    assert problems == [Problem("file", 1, "this is no recording of fleethook: the first line is no header")]


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
    assert sum(isinstance(one, Entry) for one in found) > 400
    assert isinstance(found[-1], Problem)
