"""The choice between the direct path and the ASGI app."""

import asyncio
from typing import Any

import pytest

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
    Neighbour,
    Wire,
    app_for_tests,
    ask,
    encode,
    long_review,
    review,
    turns,
)

WHOLE = encode(review())
LONG = encode(long_review(30_000))
TOO_LONG = encode(long_review(LIMIT - 4_000))
REFUSED = encode(review(), "Content-Type: text/plain")
DIRECT = 1
BY_ASGI = 2
"""Writes of an answer: head and body together, or one after the other."""


@pytest.mark.parametrize(
    ("chunks", "writes"),
    [
        ([WHOLE], DIRECT),
        ([encode(review(), path=f"{MUTATE}?timeout=10s")], DIRECT),
        ([encode(b"{}")], DIRECT),
        ([encode(review(), "Content-Type: text/plain")], DIRECT),
        ([WHOLE, WHOLE, WHOLE], 3 * DIRECT),
        ([b"\r\n" + WHOLE + b"\r\n"], DIRECT),
        ([WHOLE[:-1], WHOLE[-1:]], DIRECT),
        ([WHOLE[:9], *(WHOLE[place : place + 1] for place in range(9, len(WHOLE)))], DIRECT),
        ([LONG[:20_000], LONG[20_000:]], DIRECT),
        ([LONG[:20_000], LONG[20_000:], WHOLE], 2 * DIRECT),
        ([LONG[:20_000], LONG[20_000:] + WHOLE], 2 * BY_ASGI),
        ([TOO_LONG[:20_000], TOO_LONG[20_000:]], BY_ASGI),
        ([TOO_LONG], BY_ASGI),
        ([REFUSED[:-1], REFUSED[-1:]], BY_ASGI),
        ([WHOLE[:50], WHOLE[50:]], DIRECT),
        ([WHOLE + WHOLE], 2 * BY_ASGI),
        ([encode(review(), "Transfer-Encoding: chunked")], BY_ASGI),
        ([encode(review(), "Expect: 100-continue")], BY_ASGI + 1),
        ([encode(review(), "Connection: close")], BY_ASGI),
        ([encode(review(), "Connection: Upgrade", "Upgrade: h2c")], BY_ASGI),
        ([encode(review(), version="1.0")], BY_ASGI),
        ([encode(review(), "Connection: keep-alive", version="1.0")], BY_ASGI),
        ([encode(review(), path=WAITING)], DIRECT),
        ([encode(review(), path=FAILING)], DIRECT),
        ([encode(review(), path=LENGTHY)], DIRECT + 4),
        ([encode(review(), path="/none")], BY_ASGI),
        ([encode(review(), path="/clusters/a/mutate")], DIRECT),
        ([encode(review(), path="/clusters/%61/mutate")], BY_ASGI),
        ([encode(review(), path="/clusters/a/explain")], BY_ASGI),
        ([encode(b"", method="GET")], BY_ASGI),
    ],
    ids=lambda value: None if isinstance(value, int) else f"{len(value)} reads, {value[0][:60]!r}",
)  # fmt: skip
async def test_a_whole_review_is_answered_directly(chunks: list[bytes], writes: int) -> None:
    assert (await ask(app_for_tests(), chunks, direct=True)).writes == writes


async def test_requests_behind_one_that_waits_are_left_to_the_app_in_their_order() -> None:
    wire = Wire(app_for_tests(), direct=True)
    wire.protocol.data_received(encode(review("first"), path=WAITING))
    wire.protocol.data_received(encode(review("second")))
    assert (wire.transport.is_paused, wire.transport.writes) == (True, [])
    await turns()
    outcome = await wire.end()
    assert outcome.writes == DIRECT + BY_ASGI
    assert outcome.received.index(b'"first"') < outcome.received.index(b'"second"')


@pytest.mark.parametrize(
    ("certificate", "status"), [(SOMEBODY, b"200"), (NOBODY, b"403"), (None, b"403")], ids=["known", "none", "no TLS"]
)
async def test_a_client_certificate_is_asked_for(certificate: Certificate | None, status: bytes) -> None:
    app = app_for_tests(known_clients_only=True)
    outcome = await ask(app, [WHOLE], direct=True, certificate=certificate)
    assert (outcome.received.split()[1], outcome.writes) == (status, DIRECT)
    # Without one, nothing of the body is kept.
    wire = Wire(app, direct=True, certificate=certificate)
    await wire.read(WHOLE[:-1])
    assert wire.protocol.is_collecting == (status == b"200")
    await wire.end()


@pytest.mark.parametrize(("path", "error"), [(FAILING, LookupError), (EXITING, SystemExit)])
async def test_a_defect_is_answered_with_500_and_logged(
    path: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await ask(app_for_tests(), [encode(review(), path=path)], direct=True)
    assert (outcome.received.split(b"\r\n")[0], outcome.is_closed) == (b"HTTP/1.1 500 Internal Server Error", True)
    (record,) = [record for record in caplog.records if record.name == "uvicorn.error"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], error)


async def test_a_url_that_uvicorn_does_not_accept_is_refused() -> None:
    too_long = encode(review(), path=f"{MUTATE}?{65_535 * 'q'}")
    assert (await ask(app_for_tests(), [too_long], direct=True)).received.split()[1] == b"400"


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
    neighbour = Neighbour(app)
    neighbour.take(leave=20 * len(review()))
    await wire.read(WHOLE)
    # Counted instead of estimated, it fits.
    assert (await wire.end()).writes == BY_ASGI
    neighbour.give_back()
    assert app.bodies.total == 0


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


async def test_a_long_answer_is_charged_until_its_client_has_read_it() -> None:
    app = app_for_tests()
    wire = Wire(app, direct=True)
    wire.protocol.data_received(encode(review(), path=LENGTHY))
    wire.protocol.pause_writing()
    await turns()
    assert (app.metrics.in_flight, app.bodies.total) == (1, 33 * len(review()))
    assert wire.transport.writes == []
    wire.protocol.resume_writing()
    await turns()
    assert (app.metrics.in_flight, app.bodies.total) == (0, 0)
    assert len((await wire.end()).received) > 200_000


async def test_an_answer_given_at_once_counts_as_a_request_and_starts_the_idle_time() -> None:
    wire = Wire(app_for_tests(), direct=True)
    await wire.read(WHOLE)
    assert wire.state.total_requests == 1
    assert wire.protocol.timeout_keep_alive_task is not None
    wire.protocol.shutdown()
    assert wire.transport.is_closed
    await wire.end()
