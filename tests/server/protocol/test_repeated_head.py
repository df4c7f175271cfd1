"""Tests of heads that equal a former one of their connection; test_both_paths.py has other heads."""

import asyncio
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleethook.server.protocol.connections import ConnectionStage
from fleethook.server.protocol.repeated_head import MAX_HEAD, KnownHead, remember_head
from tests.hypothesis_profiles import cases, examples
from tests.server.direct_connections import (
    FAILING,
    LENGTHY,
    LIMIT,
    MUTATE,
    SOMEBODY,
    WAITING,
    Event,
    Outcome,
    Wire,
    app_for_tests,
    ask,
    encode,
    is_comparable,
    long_review,
    review,
)
from tests.server.notes import Notes

HEAD = b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: %b\r\nAccept: */*\r\n\r\n"
HEADERS = [(b"host", b"b"), (b"content-length", b"10"), (b"accept", b"*/*")]


def known() -> KnownHead:
    found = remember_head(HEAD % b"10" + b"body", HEADERS)
    assert found is not None
    return found


@pytest.mark.parametrize("length", [b"0", b"7", b"10", b"12345", b"007"])
def test_a_head_with_another_length_is_found(length: bytes) -> None:
    found = known().find(HEAD % length + b"any body")
    assert found is not None
    assert (found.text, found.length, found.body) == (HEAD % length, int(length), b"any body")
    assert found.headers == [HEADERS[0], (b"content-length", length), HEADERS[2]]


@pytest.mark.parametrize(
    "data",
    [
        HEAD % b"", HEAD % b"+5", HEAD % b"5 ", HEAD % b"5, 6", HEAD % b"0x5", HEAD % (b"1" * 11), HEAD % "٣".encode(),
        (HEAD % b"5").replace(b"*/*", b"*/a"), (HEAD % b"5").replace(b"POST", b"PUT"), (HEAD % b"5")[:-1], b"",
        (HEAD % b"5").replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n"), b"\r\n" + HEAD % b"5",
    ],
)  # fmt: skip
def test_any_other_head_is_left_to_the_parser(data: bytes) -> None:
    assert known().find(data) is None


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        ((HEAD % b"10")[:-1], HEADERS),
        (HEAD % b"10" + b"x", [HEADERS[0], HEADERS[2]]),
        (HEAD % b"10", [*HEADERS, (b"content-length", b"10")]),
        (HEAD % b"11", HEADERS),
        ((HEAD % b"10").replace(b"Content-Length", b"content-length"), HEADERS),
        ((HEAD % b"10").replace(b"*/*", b"a" * MAX_HEAD), HEADERS),
    ],
)
def test_an_unusual_head_is_not_kept(data: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    assert remember_head(data, headers) is None


BODIES = st.sampled_from(
    [review(), review("u-2"), b"{}", b"", b"\xff", long_review(9_000), long_review(30_000), b" " * (LIMIT + 1)]
)
PATHS = st.sampled_from([MUTATE, MUTATE, MUTATE, WAITING, FAILING, LENGTHY])
FOLLOWING = st.sampled_from([b""] * 8 + [b"\r\n", b"garbage\r\n\r\n", b"POST / HT", encode(review("u-3"))])


@st.composite
def repetitions(draw: st.DrawFn) -> list[bytes | Event]:
    """Return the reads of a connection whose requests have one of two heads; most begin in a read of their own."""
    paths = draw(st.lists(PATHS, min_size=1, max_size=2))
    chunks: list[bytes | Event] = [encode(review(), path=path) for path in paths]
    for body in draw(st.lists(BODIES, min_size=1, max_size=5)):
        path = draw(st.sampled_from(paths))
        text = encode(body, path=path) + draw(FOLLOWING)
        cuts = draw(st.lists(st.integers(0, len(text)) | st.just(len(encode(b"", path=path))), max_size=3))
        chunks += [text[begin:end] for begin, end in pairwise(sorted({0, len(text), *cuts}))]
    if draw(st.booleans()):
        del chunks[draw(st.integers(1, len(chunks))) :]
    for event in draw(st.lists(st.sampled_from(Event), max_size=2)):
        chunks.insert(draw(st.integers(1, len(chunks))), event)
    assume(is_comparable(chunks))
    return chunks


MET: Counter[str] = Counter()


@given(repetitions(), st.booleans())
@settings(max_examples=examples(300))
def _compare_paths(chunks: list[bytes | Event], is_compiled: bool) -> None:
    by_asgi, direct = Notes(), Notes()

    async def run(notes: Notes, *, direct: bool) -> Outcome:
        app = app_for_tests(notes.add_line, is_compiled=is_compiled)
        with notes.taken(app):
            outcome = await ask(app, chunks, direct=direct, certificate=SOMEBODY)
        assert (app.metrics.in_flight, app.bodies.total) == (0, 0)
        return outcome

    expected, found = asyncio.run(run(by_asgi, direct=False)), asyncio.run(run(direct, direct=True))
    assert found[:2] == expected[:2]
    assert direct.texts == by_asgi.texts


def test_both_paths_answer_and_record_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    find = KnownHead.find

    def count(self: KnownHead, data: bytes) -> object:
        found = find(self, data)
        MET["heads that need no parser"] += found is not None
        MET["other heads"] += found is None
        return found

    monkeypatch.setattr(KnownHead, "find", count)
    MET.clear()
    _compare_paths()
    # A random draw: the numbers vary, and only have to show that the property met both cases.
    assert MET["heads that need no parser"] >= cases(100), MET
    assert MET["other heads"] >= cases(10), MET


async def test_a_repeated_head_with_a_body_above_the_limit_is_refused() -> None:
    heads = [
        encode(review()),
        re.sub(rb"Content-Length: \d+", b"Content-Length: 40001", encode(review())).split(b"{")[0],
    ]
    found = [await ask(app_for_tests(), heads, direct=direct, certificate=SOMEBODY) for direct in (False, True)]
    assert found[0][:2] == found[1][:2]
    assert b"the body is larger than 40000 bytes" in found[1][0]


async def test_the_parser_reads_only_the_first_of_equal_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(app_for_tests(), direct=True)
    await wire.read(encode(review()))
    read: list[bytes] = []
    monkeypatch.setattr(wire.protocol, "on_url", read.append)
    for uid in ("u-2", "u-30"):
        request = encode(review(uid))
        await wire.read(request[:100])
        await wire.read(request[100:])
    assert not read
    assert (await wire.end()).writes == 3


async def test_the_parser_reads_the_first_head_of_each_path(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(app_for_tests(), direct=True)
    paths = (MUTATE, f"{MUTATE}?timeout=5s")
    for path in paths:
        await wire.read(encode(review(), path=path))
    read: list[bytes] = []
    monkeypatch.setattr(wire.protocol, "on_url", read.append)
    for path in (*paths, *paths):
        await wire.read(encode(review("u-2"), path=path))
    assert not read
    assert (await wire.end()).writes == 6


async def test_the_time_of_a_body_begins_with_a_head_that_needs_no_parser() -> None:
    wire = Wire(app_for_tests(), direct=True)
    await wire.read(encode(review()))
    assert wire.protocol.stage() is ConnectionStage.IDLE
    request = encode(review("u-2"))
    await wire.read(request[:200])
    assert wire.protocol.stage() is ConnectionStage.WAITING
    assert (wire.protocol._timer is not None, wire.protocol._timer_for) == (True, "body")
    await wire.read(request[200:])
    assert wire.protocol.stage() is ConnectionStage.IDLE
    assert wire.protocol._timer is None
    await wire.end()


async def test_a_request_that_the_parser_has_not_read_is_answered_at_shutdown() -> None:
    wire = Wire(app_for_tests(), direct=True)
    await wire.read(encode(review()))
    request = encode(review("u-2"))
    await wire.read(request[:200])
    await wire.shut_down()
    assert not wire.transport.is_closed
    await wire.read(request[200:])
    outcome = await wire.end()
    assert outcome.received.count(b"HTTP/1.1 200 OK") == 2
    assert b"u-2" in outcome.received
    assert outcome.is_closed
