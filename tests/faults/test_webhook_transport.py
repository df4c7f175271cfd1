"""Faulty webhooks: each call fails in time with a specific error, and does not affect the next one."""

import asyncio
import contextlib
import gzip
import math
import resource
import select
import socket
import zlib
from collections.abc import AsyncIterator, Callable

import pytest

from fleethook.model.formats.client_config_and_addresses import WebhookEndpoint
from fleethook.outbound.call_errors_and_failure_log import CallError
from fleethook.outbound.calls_and_retries import HookClient, Parties
from fleethook.outbound.response_bodies import RESPONSE_LIMIT
from tests.faults.webhook_calls import LONG, SHORT, Resolver, catch_call_error, check_next_call, endpoint
from tests.hook_server import HookRequest, RawHook, Responder, http, resets, respond, respond_and_close
from tests.waiting import with_patience_async

MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def count_turns() -> AsyncIterator[Callable[[], int]]:
    """Count the turns that another task gets from the event loop meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    task = asyncio.create_task(tick())
    try:
        yield lambda: ticks
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def silent(_: HookRequest, writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.Event().wait()


# Of one consumer, while no other one makes calls.
CALLS = 57


def stops_after(data: bytes) -> Responder:
    async def answer(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        await respond(data)(asked, writer)
        await silent(asked, writer)

    return answer


def repeats(first: bytes, again: bytes, *, pause: float = 0) -> Responder:
    """Write ``first``, then repeat ``again`` until the client closes."""

    async def answer(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        await respond(first)(asked, writer)
        while not writer.is_closing():
            await respond(again)(asked, writer)
            await asyncio.sleep(pause)

    return answer


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

HANGING = {
    "says nothing": silent,
    "stops in the status line": stops_after(b"HTTP/1.1 20"),
    "stops in the headers": stops_after(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "stops after the headers": stops_after(HEAD),
    "stops in the body": stops_after(HEAD + b"{"),
    "drips headers": repeats(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", pause=0.02),
    "drips the body": repeats(HEAD, b" ", pause=0.02),
    # So slowly that the deadline comes before the limit of interim responses.
    "drips interim responses": repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.5),
    "sends empty lines forever": repeats(CHUNKED, b"1\r\n \r\n", pause=0.02),
}


@pytest.mark.parametrize("answer", HANGING.values(), ids=HANGING)
async def test_a_call_without_a_complete_answer_ends_at_the_deadline(
    client: HookClient, hook: RawHook, answer: Responder
) -> None:
    hook.answer = answer

    async def call(seconds: float) -> tuple[float, CallError, int]:
        async with count_turns() as ticks:
            return seconds, await catch_call_error(client, endpoint(hook), seconds=seconds), ticks()

    seconds, error, ticks = await with_patience_async(call, lambda found: hook.asked and found[2] > 10)
    assert ticks > 10
    told = f"{math.ceil(seconds)}s"
    assert str(error) == f'failed to call webhook: Post "{hook.url}?timeout={told}": context deadline exceeded'
    assert (error.timed_out, error.code) == (True, 0)
    await check_next_call(client, hook)


async def test_a_stalled_handshake_ends_at_the_deadline(client: HookClient, hook: RawHook) -> None:
    hook.greeting = "silence"

    async def call(seconds: float) -> tuple[CallError, int, int]:
        before = hook.connections
        async with count_turns() as ticks:
            return await catch_call_error(client, endpoint(hook), seconds=seconds), ticks(), hook.connections - before

    error, ticks, connections = await with_patience_async(call, lambda found: found[1] > 10 and found[2])
    assert ticks > 10
    assert error.timed_out
    assert connections == 1
    await check_next_call(client, hook)


async def test_a_connection_without_accept_ends_at_the_deadline(client: HookClient, hook: RawHook) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        where = endpoint(hook, url=f"https://127.0.0.1:{deaf.getsockname()[1]}/hook")
        assert (await catch_call_error(client, where, seconds=SHORT)).timed_out
    assert "connect: connection refused" in str(await catch_call_error(client, where))
    await check_next_call(client, hook)


async def test_an_unanswered_lookup_ends_at_the_deadline() -> None:
    async with HookClient(allow_private=True, resolver=Resolver(None)) as client:
        error = await catch_call_error(client, WebhookEndpoint("https://hook.example.com/p"), seconds=SHORT)
    assert error.timed_out


async def reset(_: HookRequest, writer: asyncio.StreamWriter) -> None:
    resets(writer.get_extra_info("socket"))
    writer.transport.abort()


async def reset_in_the_body(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
    await respond(HEAD + b"{")(asked, writer)
    await reset(asked, writer)


async def send_too_many_headers(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
    await repeats(b"HTTP/1.1 200 OK\r\n", b"".join(b"A%d: b\r\n" % number for number in range(100)))(asked, writer)


MALFORMED = "malformed HTTP response: "
TOO_MUCH = "the response is larger than 8,388,608 bytes"
BROKEN = {
    "closes": (respond_and_close(b""), "EOF: the server closed the connection without a response"),
    "closes in the headers": (respond_and_close(b"HTTP/1.1 200 OK\r\nA"), "EOF: the server closed the connection without a response"),
    "resets": (reset, "connection reset by peer"),
    "resets in the body": (reset_in_the_body, "unexpected EOF: the response is truncated or malformed"),
    "is no HTTP": (respond(b"220 mail.example.com ESMTP\r\n\r\n"), MALFORMED),
    "is binary": (respond(bytes(range(256)) * 4), MALFORMED),
    "is HTTP/2": (respond(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0\r\n\r\n"), MALFORMED),
    "has two lengths": (respond(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), MALFORMED),
    "has a length that is none": (respond(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}"), MALFORMED),
    "has an endless length": (respond(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n{}"), MALFORMED),
    "has a large header": (respond(http(a="x" * 20_000)), "the response headers are too large"),
    "has an endless header": (repeats(b"HTTP/1.1 200 OK\r\nA: ", b"x" * 4_096), "the response headers are too large"),
    "has endless headers": (send_too_many_headers, MALFORMED),
    "has interim responses without end": (
        repeats(b"", b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" * 100), MALFORMED + "more than 100 interim responses"
    ),
    "is shorter than it says": (respond_and_close(http(b"{}", content_length="3")), "unexpected EOF: the response is truncated"),
    "has a chunk that is none": (respond(CHUNKED + b"zz\r\n"), MALFORMED),
    "ends between chunks": (respond_and_close(CHUNKED + b"1\r\n \r\n"), "unexpected EOF: the response is truncated"),
    "says it has 2 GB": (repeats(http(b"", content_length=str(2 * 1024 * MIB)), b" " * MIB), TOO_MUCH),
    "has chunks without end": (repeats(CHUNKED, b"100000\r\n" + b" " * MIB + b"\r\n"), TOO_MUCH),
    "has no length and no end": (repeats(b"HTTP/1.1 200 OK\r\n\r\n", b" " * MIB), TOO_MUCH),
    "is an error without end": (repeats(b"HTTP/1.1 500 Oops\r\n\r\n", b" " * MIB), TOO_MUCH),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "text"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_has_a_specific_error(
    client: HookClient, hook: RawHook, answer: Responder, text: str
) -> None:
    hook.answer = answer
    error = await catch_call_error(client, endpoint(hook))
    assert str(error).startswith(f'failed to call webhook: Post "{hook.url}?timeout=30s": {text}')
    assert str(error).isprintable()
    assert not error.timed_out
    assert len(hook.asked) == 1, "it is not asked twice"
    await check_next_call(client, hook)


async def test_a_reset_before_tls_has_a_specific_error(client: HookClient, hook: RawHook) -> None:
    hook.greeting = "reset"
    error = await catch_call_error(client, endpoint(hook))
    assert "connection reset by peer" in str(error)
    await check_next_call(client, hook)


async def test_a_server_without_tls_has_a_specific_error(client: HookClient, hook: RawHook) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        where = endpoint(hook, url=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook")
        assert ": tls: " in str(await catch_call_error(client, where))


async def test_interim_responses_are_skipped(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100 + http(b"{}"))
    for _ in range(2):
        assert await client.post(endpoint(hook), b"{}", seconds=LONG) == b"{}"


async def test_the_caller_checks_the_body_of_a_successful_answer(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(http(b"\0<html>\xff"))
    assert await client.post(endpoint(hook), b"{}", seconds=LONG) == b"\0<html>\xff"


def bomb(megabytes: int, window: int) -> bytes:
    compressor = zlib.compressobj(9, wbits=window)
    return b"".join(compressor.compress(bytes(MIB)) for _ in range(megabytes)) + compressor.flush()


def peak() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(("encoding", "window"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
async def test_a_bomb_is_not_inflated_beyond_the_limit(
    client: HookClient, hook: RawHook, encoding: str, window: int
) -> None:
    body = bomb(1_024, window)
    assert len(body) < 2 * MIB
    hook.answer = respond(http(body, content_encoding=encoding))
    before = peak()
    async with count_turns() as ticks:
        error = await catch_call_error(client, endpoint(hook))
        assert ticks() > 0
    assert TOO_MUCH in str(error)
    assert peak() - before < 128 * MIB
    await check_next_call(client, hook)


async def test_members_of_gzip_without_end_are_not_followed(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(http(gzip.compress(b"", mtime=0) * (4 * MIB // 20), content_encoding="gzip"))
    error = await catch_call_error(client, endpoint(hook))
    assert str(error).endswith("the response cannot be decompressed: it is truncated or has trailing data")
    await check_next_call(client, hook)


async def test_a_body_that_is_cut_is_not_read_to_its_end(client: HookClient, hook: RawHook) -> None:
    written = 0
    gone = asyncio.Event()

    async def pour(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await respond(CHUNKED)(asked, writer)
        try:
            while not writer.is_closing():
                await respond(b"10000\r\n" + b" " * 65536 + b"\r\n")(asked, writer)
                written += 65536
                await asyncio.sleep(0)  # Otherwise asyncio's TLS writer never learns that its connection is lost.
        finally:
            gone.set()

    hook.answer = pour
    assert TOO_MUCH in str(await catch_call_error(client, endpoint(hook)))
    await asyncio.wait_for(gone.wait(), LONG)
    assert written < RESPONSE_LIMIT + 32 * MIB, "the contents of socket buffers"
    await check_next_call(client, hook)


async def test_an_answer_of_just_the_limit_is_one(hook: RawHook) -> None:
    async with HookClient(allow_private=True, response_limit=1_000) as client:
        for body, encoding in ((b"x" * 1_000, "identity"), (gzip.compress(b"x" * 1_000, mtime=0), "gzip")):
            hook.answer = respond(http(body, content_encoding=encoding))
            assert await client.post(endpoint(hook), b"{}", seconds=LONG) == b"x" * 1_000
        for body, encoding in ((b"x" * 1_001, "identity"), (gzip.compress(b"x" * 1_001, mtime=0), "gzip")):
            hook.answer = respond(http(body, content_encoding=encoding))
            assert "the response is larger than 1,000 bytes" in str(await catch_call_error(client, endpoint(hook)))


async def wait_for_arrival(client: HookClient, *, noticed: bool) -> None:
    """Wait until bytes arrive on the only idle connection; with ``noticed``, the event loop reads them."""
    (pool,) = client._pools._pools.values()
    ((protocol, _),) = next(iter(pool.session.connector._conns.values()))
    connection = protocol.transport.get_extra_info("socket")
    assert select.select([connection], [], [], LONG)[0]
    while noticed and connection.fileno() >= 0 and select.select([connection], [], [], 0)[0]:
        await asyncio.sleep(0)


@pytest.mark.parametrize("noticed", [True, False])
async def test_a_connection_closed_while_idle_is_not_used_again(
    client: HookClient, hook: RawHook, noticed: bool
) -> None:
    await check_next_call(client, hook)
    hook.writers[0].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    await wait_for_arrival(client, noticed=noticed)
    await check_next_call(client, hook)
    assert (hook.connections, len(hook.asked)) == (2, 2)


@pytest.mark.parametrize("noticed", [True, False])
async def test_an_unrequested_answer_is_not_used_for_the_next_call(
    client: HookClient, hook: RawHook, noticed: bool
) -> None:
    await check_next_call(client, hook)
    hook.writers[0].write(http(b'"forged"'))
    await wait_for_arrival(client, noticed=noticed)
    await check_next_call(client, hook)
    assert hook.connections == 2


async def test_a_second_answer_to_one_request_is_not_used_for_the_next_call(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(http(b'"first"') + http(b'"forged"'))
    assert await client.post(endpoint(hook), b"{}", seconds=LONG) == b'"first"'
    await check_next_call(client, hook)
    assert hook.connections == 2


async def test_an_early_answer_to_a_large_request_does_not_affect_the_next_call(
    client: HookClient, hook: RawHook
) -> None:
    body = b" " * (4 * MIB)
    early = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(http(b'"early"'))
        await writer.drain()
        await early.wait()
        assert b"Content-Length: %d" % len(body) in head
        hook.asked.append(HookRequest(head, await reader.readexactly(len(body))))
        await RawHook.serve(hook, reader, writer)

    hook.serve = serve
    assert await client.post(endpoint(hook), body, seconds=LONG) == b'"early"'
    early.set()
    hook.answer = respond(http(b'"second"'))
    assert await client.post(endpoint(hook), b'{"second": 1}', seconds=LONG) == b'"second"'
    assert hook.asked[-1].body == b'{"second": 1}'


async def test_parallel_calls_stay_within_the_share_of_their_consumer(client: HookClient, hook: RawHook) -> None:
    answers = await asyncio.gather(*(client.post(endpoint(hook), b"{}", seconds=LONG) for _ in range(4 * CALLS)))
    assert answers == [b"{}"] * (4 * CALLS)
    assert len(hook.asked) == 4 * CALLS
    assert 1 < hook.most_open <= CALLS


async def test_calls_of_one_consumer_take_no_connection_from_another_one(client: HookClient, hook: RawHook) -> None:
    hook.answer = silent
    hanging = [
        asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=LONG, parties=Parties("root:p", "root:a")))
        for _ in range(CALLS + 1)
    ]
    while len(hook.asked) < CALLS:
        await asyncio.sleep(0.01)
    hook.answer = respond(http(b'"answered"'))
    assert await client.post(endpoint(hook), b"{}", seconds=LONG, parties=Parties("root:p", "root:b")) == b'"answered"'
    assert not any(task.done() for task in hanging)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
