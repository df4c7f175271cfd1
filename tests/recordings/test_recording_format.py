"""The names of files and the members of records, which readers of other versions rely on."""

import msgspec
import pytest

from fleethook.recordings.recording_format import FILE_NAME, BodyError, Call, Record, name_file, unwrap_body


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


def test_damaged_base64_is_an_error() -> None:
    with pytest.raises(BodyError, match="damaged"):
        unwrap_body(msgspec.Raw(b'{"base64":"%"}'))


WRITER = "0123abcd"
START = "20261122T211500Z"


@pytest.mark.parametrize("number", [1, 999_999, 1_000_000])
def test_the_name_of_a_file_has_its_parts(number: int) -> None:
    found = FILE_NAME.fullmatch(name_file(START, WRITER, number))
    assert found
    assert (found["start"], found["writer"], int(found["number"])) == (START, WRITER, number)


def test_names_of_one_writer_sort_by_number_and_those_of_all_by_time() -> None:
    names = [name_file(START, WRITER, number) for number in (1, 2, 10, 100)]
    later = name_file("20261122T211501Z", "00000000", 1)
    assert sorted([later, *reversed(names)]) == [*names, later]


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


def test_a_record_names_only_the_members_that_differ_from_their_defaults() -> None:
    record = Record(time="t", route="/mutate", path="/mutate", review=msgspec.Raw(b"{}"), answer=msgspec.Raw(b"null"))
    assert msgspec.json.decode(msgspec.json.encode(record)) == {
        "time": "t",
        "route": "/mutate",
        "path": "/mutate",
        "review": {},
        "answer": None,
    }


def test_a_call_names_only_the_members_that_differ_from_their_defaults() -> None:
    assert msgspec.json.encode(Call(kind="read", name="n", key="k")) == b'{"kind":"read","name":"n","key":"k"}'


def test_an_answer_of_null_is_an_answer_and_an_absent_one_is_none() -> None:
    (null, absent) = msgspec.json.decode(
        b'[{"kind": "read", "name": "n", "key": "k", "answer": null}, {"kind": "read", "name": "n", "key": "k"}]',
        type=list[Call],
    )
    assert null.answer == msgspec.Raw(b"null")
    assert absent.answer is msgspec.UNSET


def test_readers_ignore_unknown_members() -> None:
    call = msgspec.json.decode(b'{"kind": "read", "name": "n", "key": "k", "later": {"a": 1}}', type=Call)
    assert call == Call(kind="read", name="n", key="k")
