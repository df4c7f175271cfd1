"""Lines of a recording: they hold a review and its answer as they were received and sent."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.recordings.recording_format import Record
from fleethook.recordings.redaction import Redactor
from fleethook.server.reviews.recording import AnsweredReview, AskedCall
from tests.recordings.builders import ROUTE, answered, encode_one, encoder, to_patch

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_a_line_has_the_facts_of_a_review() -> None:
    call = AskedCall("webhook", "a.example.org", "mutating/c/a/0", "c", "root", answer={"allowed": True})
    review = answered(
        {"request": {"uid": "1", "x": "é"}},
        route="/clusters/{cluster}/mutate",
        path=b"/clusters/root%3Aa/mutate",
        query=b"timeout=5s",
        cluster="root:a",
        caller={"returned": True},
        calls=(call,),
    )
    assert encode_one(review) == {
        "time": "2023-11-14T22:13:20.250000Z",
        "route": "/clusters/{cluster}/mutate",
        "path": "/clusters/root%3Aa/mutate?timeout=5s",
        "cluster": "root:a",
        "seconds": 0.000123,
        "status": 200,
        "caller": {"returned": True},
        "review": {"request": {"uid": "1", "x": "é"}},
        "answer": {"response": {"uid": "1", "allowed": True}},
        "calls": [
            {
                "kind": "webhook",
                "name": "a.example.org",
                "key": "mutating/c/a/0",
                "configuration": "c",
                "cluster": "root",
                "answer": {"allowed": True},
            }
        ],
    }


def test_an_error_of_a_call_replaces_its_answer() -> None:
    call = AskedCall("script", "Retain", "Retain/x", digest="ab", error="failed", failure={"code": 422})
    assert encode_one(answered(calls=(call,)))["calls"] == [
        {
            "kind": "script",
            "name": "Retain",
            "key": "Retain/x",
            "digest": "ab",
            "error": "failed",
            "failure": {"code": 422},
        }
    ]


def test_a_review_keeps_its_text() -> None:
    body = b'{"request" : {"uid":"1","number":1.50,"twice":1,"twice":2,"path":"\\/"}}'
    text = encoder().encode([answered(body)]).text
    assert b'"review":' + body + b',"answer":' in text


def test_line_breaks_of_a_review_do_not_break_the_line() -> None:
    found = encode_one(answered(b'{\n"request": {"uid":\r\n"1"}}\n'))
    assert found["review"] == {"request": {"uid": "1"}}


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"no json", {"text": "no json"}),
        (b"", {"text": ""}),
        (b"\xff\xfe", {"base64": "//4="}),
        (b'{"text": "x"}', {"text": '{"text": "x"}'}),
        (b'{"base64": "x"}', {"text": '{"base64": "x"}'}),
        (b'{"text": "x", "y": 1}', {"text": "x", "y": 1}),
        (b"[1]", [1]),
    ],
)
def test_a_refused_body_has_a_form(body: bytes, shown: object) -> None:
    found = encode_one(answered(body, {"kind": "Status"}, status=400, uid=""))
    assert found["review"] == shown
    assert "redacted" not in found


@pytest.mark.parametrize(
    "body", [b"kind: Secret\ndata: {a: hunter22}", b"{'kind': 'secret'", b'{"\\u0053ecret', b"S\0e\0c\0"]
)
def test_a_refused_body_that_may_have_a_secret_is_a_hash(body: bytes) -> None:
    found = encode_one(answered(body, {"kind": "Status"}, status=400))
    assert found["review"]["text"].startswith("hmac-sha256:")
    assert found["redacted"] is True


def test_a_body_that_is_no_utf8_has_a_form_in_the_middle_of_a_block() -> None:
    good, bad = answered(), answered(b'{"request":{"uid":"1","object":"\xff"}}')
    lines = encoder().encode([good, bad, good]).text.splitlines()
    assert [next(iter(json.loads(line)["review"])) for line in lines] == ["request", "base64", "request"]


@given(review=JSON_VALUES, answer=JSON_VALUES, indent=st.sampled_from([None, 1]))
def test_a_line_is_json_for_any_review(review: object, answer: object, indent: int | None) -> None:
    # A member of the envelope keeps an object with the one member "text" from meaning something else.
    document = {"request": review, "kind": ""}
    found = encode_one(answered(json.dumps(document, indent=indent).encode(), {"response": answer}))
    if "redacted" not in found:
        assert (found["review"], found["answer"]) == (document, {"response": answer})


@given(path=st.binary(max_size=20), cluster=st.text(max_size=10), seconds=st.floats(0, 1e6), time=st.floats(0, 4e9))
def test_any_facts_make_a_readable_line(path: bytes, cluster: str, seconds: float, time: float) -> None:
    try:
        cluster.encode()
    except UnicodeEncodeError:
        return
    text = encoder().encode([answered(path=path, cluster=cluster, seconds=seconds, time=time)]).text
    record = msgspec.json.decode(text, type=Record)
    assert (record.path, record.cluster, record.route) == (path.decode("latin-1"), cluster, ROUTE)
    assert record.seconds == pytest.approx(seconds, abs=1e-6)


def test_a_review_that_cannot_be_redacted_is_left_out_and_counted() -> None:
    nested = b'{"request":{"object":{"kind":"Secret","x":' + b"[" * 900 + b"]" * 900 + b"}}}"
    lines = encoder().encode([answered(), answered(nested), answered()])
    assert (lines.written, lines.refused) == (2, 1)
    assert lines.text.count(b"\n") == 2


def test_a_defect_costs_one_review(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(Redactor, "redact", fail)
    secret = answered({"request": {"uid": "1", "object": {"kind": "Secret"}}})
    lines = encoder().encode([answered(), secret, answered()])
    assert (lines.written, lines.refused) == (2, 1)
    assert "a review cannot be redacted" in caplog.text


def reviews_with(secret: AnsweredReview, *, at: int) -> list[AnsweredReview]:
    reviews = [answered({"request": {"uid": str(number)}}) for number in range(5)]
    reviews[at] = secret
    return reviews


@pytest.mark.parametrize("at", range(5))
def test_only_the_record_with_a_secret_is_redacted(at: int) -> None:
    patch = to_patch({"op": "add", "path": "", "value": {"kind": "Secret", "stringData": {"p": "correct horse"}}})
    secret = answered(None, {"response": {"allowed": True, "patch": patch}})
    lines = [json.loads(line) for line in encoder().encode(reviews_with(secret, at=at)).text.splitlines()]
    assert [number for number, line in enumerate(lines) if line.get("redacted")] == [at]
