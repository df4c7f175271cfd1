"""Responses with ``Retry-After``: retries within the deadline, slot and breaker of their call."""

import asyncio
import contextlib
import json
import math
from typing import Any

import pytest

from fleethook.outbound.breaker import MAX_FAILURES
from fleethook.outbound.call_slots import Quotas
from fleethook.outbound.client import CallError, HookClient, Parties
from fleethook.outbound.endpoint import Endpoint
from fleethook.outbound.retry import MAX_RETRIES
from tests.hook_server import HookRequest, RawHook, Responder, http, respond, respond_and_close
from tests.waiting import NET, until, with_patience_async

BUSY = "429 Too Many Requests"


def endpoint(hook: RawHook) -> Endpoint:
    return Endpoint(hook.url, ca_bundle=hook.ca_bundle)


def busy(seconds: str = "0", *, status: str = BUSY, body: bytes = b"busy") -> bytes:
    return http(body, status=status, retry_after=seconds)


def in_turn(*answers: Responder) -> Responder:
    """Answer the requests with these responses in order, and all further ones with the last."""
    left = list(answers)

    async def answer(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(asked, writer)

    return answer


async def silent(_: HookRequest, writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.Event().wait()


async def failure(client: HookClient, hook: RawHook, **rest: Any) -> CallError:
    with pytest.raises(CallError) as raised:
        await client.post(endpoint(hook), b"{}", **{"seconds": NET, **rest})
    return raised.value


@pytest.mark.parametrize("status", [BUSY, "500 Oops", "502 Oops", "503 Oops", "599 Oops"])
async def test_a_retry_sends_the_same_request_over_the_same_connection(
    client: HookClient, hook: RawHook, status: str
) -> None:
    hook.answer = in_turn(respond(busy(status=status)), respond(busy(status=status)), respond(http(b'{"a": 1}')))
    assert await client.post(endpoint(hook), b'{"large": "body"}', seconds=30) == b'{"a": 1}'
    assert hook.asked == [hook.asked[0]] * 3
    assert hook.asked[0].body == b'{"large": "body"}'
    assert hook.asked[0].head.startswith(b"POST /hook?timeout=30s ")
    assert hook.connections == 1
    assert client.retries == ({"429": 2, "5xx": 0} if status == BUSY else {"429": 0, "5xx": 2})


@pytest.mark.parametrize("status", ["400 No", "403 No", "408 No", "425 No", "428 No", "431 No", "499 No"])
async def test_other_statuses_are_final(client: HookClient, hook: RawHook, status: str) -> None:
    hook.answer = in_turn(respond(busy(status=status)), respond(http()))
    assert (await failure(client, hook)).code == int(status[:3])
    assert len(hook.asked) == 1


@pytest.mark.parametrize(
    "header", ["", "soon", "1.5", "0x1", "1_0", "1 0", "٣", "Wed, 21 Oct 2015 07:28:00 GMT", "99999999999999999999"]
)
async def test_a_retry_after_without_seconds_is_ignored(client: HookClient, hook: RawHook, header: str) -> None:
    data = busy("@").replace(b"@", header.encode())
    hook.answer = in_turn(respond(data), respond(http()))
    assert (await failure(client, hook)).code == 429
    assert len(hook.asked) == 1


@pytest.mark.parametrize("header", ["0", "+0", "-1", "-999999999", "000", " 0 "])
async def test_seconds_are_parsed_as_in_go(client: HookClient, hook: RawHook, header: str) -> None:
    hook.answer = in_turn(respond(busy(header)), respond(http()))
    assert await client.post(endpoint(hook), b"{}", seconds=NET) == b"{}"


async def test_a_response_without_the_header_is_final(client: HookClient, hook: RawHook) -> None:
    hook.answer = in_turn(respond(http(b"x", status="503 Oops")), respond(http()))
    assert (await failure(client, hook)).code == 503
    assert len(hook.asked) == 1


async def test_after_ten_retries_the_last_response_counts(client: HookClient, hook: RawHook) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "still busy"}
    hook.answer = respond(busy(body=json.dumps(status).encode()))
    error = await failure(client, hook)
    assert (str(error), error.code) == ("failed to call webhook: still busy", 429)
    assert len(hook.asked) == 1 + MAX_RETRIES == 11
    assert client.retries["429"] == MAX_RETRIES


async def test_a_retry_waits_for_retry_after(client: HookClient, hook: RawHook) -> None:
    times: list[float] = []

    async def answer(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        times.append(asyncio.get_running_loop().time())
        await respond(busy("1") if len(times) == 1 else http())(asked, writer)

    hook.answer = answer
    assert await client.post(endpoint(hook), b"{}", seconds=NET) == b"{}"
    assert times[1] - times[0] >= 1


@pytest.mark.parametrize(
    ("seconds", "within", "cut_short"), [(10, 10, False), (10, 30, False), (30, 10, True), (20, 10, False)]
)
async def test_a_retry_after_beyond_the_deadline_fails_at_once(
    client: HookClient, hook: RawHook, seconds: int, within: int, *, cut_short: bool
) -> None:
    """The call is cut short only if the webhook's timeout would have sufficed."""
    hook.answer = respond(busy("20"))
    error = await failure(client, hook, seconds=seconds, within=within)
    assert str(error) == (
        "failed to call webhook: the server has received too many requests and has asked us to try again later; "
        "its Retry-After of 20 s exceeds the remaining time"
    )
    assert (error.code, error.timed_out, error.cut_short) == (429, False, cut_short)
    assert len(hook.asked) == 1
    assert client.slots.under_way == 0


async def test_a_retry_ends_with_the_webhooks_timeout(client: HookClient, hook: RawHook) -> None:
    async def call(seconds: float) -> tuple[float, CallError]:
        hook.asked.clear()
        hook.answer = in_turn(respond(busy()), silent)
        return seconds, await failure(client, hook, seconds=seconds)

    seconds, error = await with_patience_async(call, lambda _: len(hook.asked) == 2)
    url = f"{hook.url}?timeout={math.ceil(seconds)}s"
    assert str(error) == f'failed to call webhook: Post "{url}": context deadline exceeded'
    assert (error.timed_out, error.cut_short, len(hook.asked)) == (True, False, 2)


async def test_a_call_holds_its_slot_during_retries(hook: RawHook) -> None:
    release = asyncio.Event()

    async def later(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await respond(http(b'"first"'))(asked, writer)

    hook.answer = in_turn(respond(busy()), later, respond(http(b'"second"')))
    async with HookClient(allow_private=True, quotas=Quotas(connections=1)) as client:
        first = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET))
        await until(lambda: len(hook.asked) == 2)
        second = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET))
        await until(lambda: client.slots.queued)
        assert (client.slots.under_way, len(hook.asked)) == (1, 2)
        release.set()
        assert await asyncio.gather(first, second) == [b'"first"', b'"second"']
        assert (client.slots.under_way, client.slots.queued, hook.most_open) == (0, 0, 1)


async def test_a_call_cancelled_before_a_retry_releases_its_slot(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(busy("5"))
    task = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET))
    await until(lambda: hook.asked)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (task.cancelled(), client.slots.under_way, len(hook.asked)) == (True, 0, 1)


async def test_a_response_with_a_retry_closes_the_breaker_at_once(client: HookClient, hook: RawHook) -> None:
    hook.answer = silent
    for _ in range(MAX_FAILURES):
        await failure(client, hook, seconds=0.1)
    assert client.is_silent(endpoint(hook), Parties())
    to_probe, to_others = in_turn(respond(busy()), silent), respond(http())

    async def answer(asked: HookRequest, writer: asyncio.StreamWriter) -> None:
        # On a busy machine, cancelled requests may arrive late.
        await (to_probe if asked.body == b'{"probe": 1}' else to_others)(asked, writer)

    hook.answer = answer
    probe = asyncio.create_task(client.post(endpoint(hook), b'{"probe": 1}', seconds=NET))
    await until(lambda: client.retries["429"])
    assert not client.is_silent(endpoint(hook), Parties())
    assert await client.post(endpoint(hook), b"{}", seconds=NET) == b"{}"
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)


async def test_a_retry_without_response_is_no_evidence(hook: RawHook) -> None:
    async with contextlib.AsyncExitStack() as stack:

        async def call(seconds: float) -> HookClient:
            made = await stack.enter_async_context(HookClient(allow_private=True))
            hook.asked.clear()
            hook.answer = in_turn(respond(busy()), silent)
            assert (await failure(made, hook, seconds=seconds)).timed_out
            return made

        client = await with_patience_async(call, lambda _: len(hook.asked) == 2)
        for _ in range(MAX_FAILURES - 1):
            assert (await failure(client, hook, seconds=0.1)).timed_out
        assert not client.is_silent(endpoint(hook), Parties())
        assert (await failure(client, hook, seconds=0.1)).timed_out
        assert client.is_silent(endpoint(hook), Parties())


async def test_long_or_truncated_discarded_responses_close_only_their_connection(
    client: HookClient, hook: RawHook
) -> None:
    chunked = b"HTTP/1.1 503 Oops\r\nRetry-After: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024

    async def call(seconds: float) -> CallError:
        hook.asked.clear()
        hook.answer = in_turn(
            respond(busy(body=b"x" * 4096)),
            respond_and_close(http(b"", status=BUSY, retry_after="0", content_length="9")),
            respond(chunked),
            respond(http(b'{"a": 1}')),
        )
        return await failure(client, hook, seconds=seconds)

    # The third response never ends, so the call waits until its deadline.
    error = await with_patience_async(call, lambda _: len(hook.asked) == 3)
    assert (error.timed_out, len(hook.asked)) == (True, 3)
    assert await client.post(endpoint(hook), b"{}", seconds=NET) == b'{"a": 1}'


async def test_only_the_beginning_of_a_discarded_response_is_read(client: HookClient, hook: RawHook) -> None:
    head = b"HTTP/1.1 503 Oops\r\nRetry-After: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
    hook.answer = in_turn(respond(head + b"1000\r\n" + b"x" * 4096), respond(http()))
    assert await client.post(endpoint(hook), b"{}", seconds=NET) == b"{}"
    assert hook.connections == 2
