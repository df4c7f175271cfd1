"""The names of files and the members of records, which readers of other versions rely on."""

import msgspec
import pytest

from fleethook.recordings.recording_format import FILE_NAME, Call, unwrap_body


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
        type=list[Call],
    )
    assert null.answer == msgspec.Raw(b"null")
    assert absent.answer is msgspec.UNSET
