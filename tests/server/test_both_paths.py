"""Both paths of a request produce the same bytes, log lines, records and metrics."""

import asyncio
from collections import Counter
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.hypothesis_profiles import cases, examples
from tests.server.direct_connections import (
    EXITING,
    FAILING,
    LENGTHY,
    LIMIT,
    MUTATE,
    NOBODY,
    SOMEBODY,
    WAITING,
    Certificate,
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

WHOLE = encode(review())
LONG = encode(long_review(30_000))
LONGEST_URL = 65_535
"""Bytes: httptools does not parse a longer one, and the parser of requests accepts it."""

BODIES = st.sampled_from([
    review(), review("u-2"), review("u" * 70), b"{}", b"", b"[", b"\xff", review(document={"kind": "Pod"}), b" " * 99,
    long_review(9_000), long_review(30_000), long_review(LIMIT - 4000), b" " * LIMIT, b" " * (LIMIT + 1),
])  # fmt: skip
PATHS = st.sampled_from([
    MUTATE, MUTATE, MUTATE, f"{MUTATE}?timeout=10s", f"{MUTATE}?a=%20", "/mutate%2dapps-v1-deployment", f"{MUTATE}#x",
    f"https://localhost{MUTATE}", "/interpret", "/interpret?explain=1", WAITING, FAILING, EXITING, LENGTHY, "/none", "/healthz", "*",
    "/clusters/a/mutate", "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider", f"{MUTATE}?a?b=/c&\t;#d?e",
    f"{MUTATE}\xe9".encode().decode("latin-1"), f"{MUTATE}?{LONGEST_URL * 'q'}", "localhost", "?",
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


CROWDED = encode(review(), *(f"X-{number}: x" for number in range(200)))
CONNECTIONS = st.sampled_from([None, NOBODY, SOMEBODY])


@st.composite
def framings(draw: st.DrawFn) -> list[bytes | Event]:
    """Return requests of one connection as they arrive: split anywhere, or several in one read, or cut off.

    Events happen between the reads.
    """
    requests = draw(st.lists(REQUESTS | st.just(WHOLE) | st.sampled_from([LONG, CROWDED]), min_size=1, max_size=4))
    text = b"".join(part for request in requests for part in (request, draw(BETWEEN)))
    ends = [place + len(WHOLE) for place in range(len(text)) if text.startswith(WHOLE, place)]
    cuts = draw(st.lists(st.integers(0, len(text)) | st.sampled_from([*ends, 0]), max_size=6))
    # As TLS records of an apiserver end: within the body, and where it begins and ends.
    records = range(0, len(text), draw(st.sampled_from([400, 1_300, 16_384, len(text)])))
    places = sorted({0, len(text), *cuts, *records, *(ends if draw(st.booleans()) else [])})
    chunks: list[bytes | Event] = [text[begin:end] for begin, end in pairwise(places)]
    if draw(st.booleans()):
        del chunks[draw(st.integers(1, len(chunks))) :]
    for event in draw(st.lists(st.sampled_from(Event), max_size=3)) if draw(st.booleans()) else []:
        chunks.insert(draw(st.integers(0, len(chunks))), event)
    assume(is_comparable(chunks))
    return chunks


MET: Counter[str] = Counter()


@given(framings(), CONNECTIONS, st.booleans(), st.booleans())
@settings(max_examples=examples(300))
def _compare_paths(
    chunks: list[bytes | Event], certificate: Certificate | None, known_clients_only: bool, is_compiled: bool
) -> None:
    by_asgi, direct = Notes(), Notes()

    async def run(notes: Notes, *, direct: bool) -> Outcome:
        # An app of its own: its log goes to its notes.
        app = app_for_tests(notes.add_line, known_clients_only=known_clients_only, is_compiled=is_compiled)
        with notes.taken(app):
            outcome = await ask(app, chunks, direct=direct, certificate=certificate)
        assert (app.metrics.in_flight, app.bodies.total) == (0, 0)
        return outcome

    expected, found = asyncio.run(run(by_asgi, direct=False)), asyncio.run(run(direct, direct=True))
    assert found[:2] == expected[:2]
    assert direct.texts == by_asgi.texts
    MET["answers at once"] += expected.writes - found.writes
    MET["log lines"] += sum(text.startswith("{") for text in direct.texts)
    MET["connections"] += 1


def test_both_paths_answer_and_record_the_same() -> None:
    MET.clear()
    _compare_paths()
    assert MET["connections"] >= examples(250), MET
    # A random draw: the numbers vary, and only have to show that the property met both cases.
    assert MET["answers at once"] >= cases(10), MET
    assert MET["log lines"] >= cases(30), MET


@given(framings())
@settings(max_examples=examples(100))
def test_a_client_that_closes_its_side_at_once_receives_no_less(chunks: list[bytes | Event]) -> None:
    async def run(*, direct: bool) -> bytes:
        wire = Wire(app_for_tests(), direct=direct)
        *before, last = [chunk for chunk in chunks if isinstance(chunk, bytes)] or [b""]
        for chunk in before:
            await wire.read(chunk)
        if not (wire.transport.is_paused or wire.transport.is_closed):
            wire.protocol.data_received(last)
        wire.close()
        return (await wire.end()).received

    by_asgi = asyncio.run(run(direct=False))
    # An answer that is given at once is on its way before the server learns of the end.
    assert asyncio.run(run(direct=True)).startswith(by_asgi)
