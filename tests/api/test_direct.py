"""The two paths of a request give the same bytes, and each request takes the path that it should."""

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.direct_connections import (
    FAILING,
    LIMIT,
    MUTATE,
    WAITING,
    Wire,
    app_for_tests,
    ask,
    encode,
    long_review,
    review,
)

WHOLE = encode(review())
LONG = encode(long_review(30_000))
TOO_LONG = encode(long_review(LIMIT - 4_000))
REFUSED = encode(review(), "Content-Type: text/plain")
AT_ONCE = 1
BY_ASGI = 2
"""Writes of an answer: head and body together, or one after the other."""

BODIES = st.sampled_from([
    review(), review("u-2"), review("u" * 70), b"{}", b"", b"[", b"\xff", review(document={"kind": "Pod"}), b" " * 99,
    long_review(9_000), long_review(30_000), long_review(LIMIT - 4000), b" " * LIMIT, b" " * (LIMIT + 1),
])  # fmt: skip
PATHS = st.sampled_from([
    MUTATE, MUTATE, MUTATE, f"{MUTATE}?timeout=10s", f"{MUTATE}?a=%20", "/mutate%2dapps-v1-deployment", f"{MUTATE}#x",
    f"https://localhost{MUTATE}", "/interpret", "/interpret?explain=1", WAITING, FAILING, "/none", "/healthz", "*",
    "/clusters/a/mutate", "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider",
    f"{MUTATE}\xe9".encode().decode("latin-1"),
])  # fmt: skip
METHODS = st.sampled_from(["POST"] * 8 + ["GET", "HEAD", "PUT", "OPTIONS"])
VERSIONS = st.sampled_from(["1.1"] * 8 + ["1.0", "2.0", "1.2"])
HEADERS = st.lists(st.sampled_from([
    "Expect: 100-continue", "Transfer-Encoding: chunked", "Connection: close", "Connection: keep-alive",
    "Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c", "Content-Type: text/plain", "X-Request-Id: r-1",
    "Content-Encoding: gzip", "Content-Encoding: identity", "Content-Type: application/json; charset=utf-8",
    "Transfer-Encoding: gzip", "Content-Length: 3",
]), max_size=2)  # fmt: skip
REQUESTS = st.builds(
    lambda body, headers, method, path, version: encode(body, *headers, method=method, path=path, version=version),
    BODIES, HEADERS, METHODS, PATHS, VERSIONS,
)  # fmt: skip
BETWEEN = st.sampled_from([b""] * 6 + [b"\r\n", b"\r\n\r\n", b"garbage\r\n\r\n", b"\x00", b"POST / HT"])


@st.composite
def framings(draw: st.DrawFn) -> list[bytes | None]:
    """Return requests of one connection as they arrive: split anywhere, or several in one read, or cut off.

    None is where the server begins to shut down.
    """
    text = b"".join(
        part for request in draw(st.lists(REQUESTS | st.just(WHOLE) | st.just(LONG), min_size=1, max_size=4)) for part in
        (request, draw(BETWEEN))
    )  # fmt: skip
    ends = [place + len(WHOLE) for place in range(len(text)) if text.startswith(WHOLE, place)]
    cuts = draw(st.lists(st.integers(0, len(text)) | st.sampled_from([*ends, 0]), max_size=6))
    # As TLS records of an apiserver end: within the body, and where it begins and ends.
    records = range(0, len(text), draw(st.sampled_from([400, 1_300, 16_384, len(text)])))
    places = sorted({0, len(text), *cuts, *records, *(ends if draw(st.booleans()) else [])})
    chunks: list[bytes | None] = [text[begin:end] for begin, end in pairwise(places)]
    if draw(st.booleans()):
        del chunks[draw(st.integers(1, len(chunks))) :]
    if draw(st.integers(0, 7)) == 7:
        chunks.insert(draw(st.integers(0, len(chunks))), None)
    return chunks


PATHS_TAKEN: Counter[str] = Counter()


@given(framings())
@settings(max_examples=200, deadline=None)
def test_both_paths_answer_the_same_bytes(chunks: list[bytes | None]) -> None:
    async def both() -> None:
        app = app_for_tests()
        # The same app: what one request leaves behind, the next one finds on either path.
        by_asgi = await ask(app, chunks, direct=False)
        direct = await ask(app, chunks, direct=True)
        assert direct[:2] == by_asgi[:2]
        assert app.metrics.in_flight == 0
        assert app.bodies.total == 0
        PATHS_TAKEN["at once"] += by_asgi.writes - direct.writes
        PATHS_TAKEN["connections"] += 1

    asyncio.run(both())


def test_the_property_has_met_both_paths() -> None:
    if PATHS_TAKEN["connections"] < 150:
        pytest.skip("the property did not run in this process")
    assert PATHS_TAKEN["at once"] > 25, PATHS_TAKEN


@pytest.mark.parametrize(
    ("chunks", "writes"),
    [
        ([WHOLE], AT_ONCE),
        ([encode(review(), path=f"{MUTATE}?timeout=10s")], AT_ONCE),
        ([encode(b"{}")], AT_ONCE),
        ([encode(review(), "Content-Type: text/plain")], AT_ONCE),
        ([WHOLE, WHOLE, WHOLE], 3 * AT_ONCE),
        ([b"\r\n" + WHOLE + b"\r\n"], AT_ONCE),
        ([WHOLE[:-1], WHOLE[-1:]], AT_ONCE),
        ([WHOLE[:9], *(WHOLE[place : place + 1] for place in range(9, len(WHOLE)))], AT_ONCE),
        ([LONG[:20_000], LONG[20_000:]], AT_ONCE),
        ([LONG[:20_000], LONG[20_000:], WHOLE], 2 * AT_ONCE),
        ([LONG[:20_000], LONG[20_000:] + WHOLE], 2 * BY_ASGI),
        ([TOO_LONG[:20_000], TOO_LONG[20_000:]], BY_ASGI),
        ([TOO_LONG], BY_ASGI),
        ([REFUSED[:-1], REFUSED[-1:]], BY_ASGI),
        ([WHOLE[:50], WHOLE[50:]], AT_ONCE),
        ([WHOLE + WHOLE], 2 * BY_ASGI),
        ([encode(review(), "Transfer-Encoding: chunked")], BY_ASGI),
        ([encode(review(), "Expect: 100-continue")], BY_ASGI + 1),
        ([encode(review(), "Connection: close")], BY_ASGI),
        ([encode(review(), "Connection: Upgrade", "Upgrade: h2c")], BY_ASGI),
        ([encode(review(), version="1.0")], BY_ASGI),
        ([encode(review(), path=WAITING)], BY_ASGI),
        ([encode(review(), path=FAILING)], BY_ASGI),
        ([encode(review(), path="/none")], BY_ASGI),
        ([encode(review(), path="/clusters/a/mutate")], BY_ASGI),
        ([encode(b"", method="GET")], BY_ASGI),
    ],
    ids=lambda value: None if isinstance(value, int) else f"{len(value)} reads, {value[0][:60]!r}",
)  # fmt: skip
async def test_a_whole_review_that_needs_no_waiting_is_answered_at_once(chunks: list[bytes], writes: int) -> None:
    assert (await ask(app_for_tests(), chunks, direct=True)).writes == writes


async def test_a_draining_server_leaves_reviews_to_the_app_which_closes() -> None:
    app = app_for_tests()
    app.draining = True
    outcome = await ask(app, [WHOLE], direct=True)
    assert (outcome.writes, outcome.is_closed) == (BY_ASGI, True)
    assert b"connection: close" in outcome.received


async def test_a_client_that_does_not_read_is_left_to_the_app_which_waits() -> None:
    wire = Wire(app_for_tests(), direct=True)
    wire.protocol.pause_writing()
    await wire.read(WHOLE)
    assert wire.transport.writes == []
    wire.protocol.resume_writing()
    await wire.read(b"\r\n")
    assert (await wire.end()).writes == BY_ASGI


async def test_a_review_without_room_is_left_to_the_app_which_waits_for_room() -> None:
    app = app_for_tests()
    wire = Wire(app, direct=True)
    for number in range(100):
        # Another client, each time, takes all that it may.
        app.bodies.take(f"192.0.2.{number + 2}", (2 * app.bodies.largest - app.bodies.total) // 2)
        if not app.bodies.has_room("192.0.2.1", len(review())):
            break
    await wire.read(WHOLE)
    # Counted instead of estimated, it fits.
    assert (await wire.end()).writes == BY_ASGI


async def test_a_review_that_waits_is_begun_once_and_charged_while_it_waits() -> None:
    app, begun, release = app_for_tests(), list[str](), asyncio.Event()
    endpoint: Any = app.reviews[WAITING]

    async def handler(request: Any) -> Any:
        begun.append(request.uid)
        async with asyncio.timeout(60):
            await release.wait()
        return await usual(request)

    usual, endpoint._handler = endpoint._handler, handler
    wire = Wire(app, direct=True)
    await wire.read(encode(review(), path=WAITING))
    assert (begun, wire.transport.writes) == (["u-1"], [])
    assert app.bodies.total > 0
    release.set()
    await wire.read(b"\r\n")
    assert begun == ["u-1"]
    assert app.bodies.total == 0
    assert b"HTTP/1.1 200 OK" in (await wire.end()).received


async def test_an_answer_given_at_once_counts_as_a_request_and_starts_the_idle_time() -> None:
    wire = Wire(app_for_tests(), direct=True)
    await wire.read(WHOLE)
    assert wire.state.total_requests == 1
    assert wire.protocol.timeout_keep_alive_task is not None
    wire.protocol.shutdown()
    assert wire.transport.is_closed
    await wire.end()
