"""Requests to webhooks, their responses, and the connections, quotas and breakers of calls."""

import asyncio
import json
import math
import os
import resource
from typing import Any

import pytest

from fleethook.model.formats.client_config_and_addresses import WebhookEndpoint
from fleethook.outbound.call_errors_and_failure_log import CallError, NotCalledError, OverloadedError
from fleethook.outbound.calls_and_retries import (
    HEADER,
    MAX_RETRIES,
    OUTGOING,
    HookClient,
    Parties,
    called_url,
    was_dispatched,
)
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import HookRequest, RawHook, Responder, http, respond, respond_and_close
from tests.waiting import NET, until, with_patience_async


async def test_requests_equal_those_of_kube_apiserver_and_forbid_compression(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(http(b'{"a": 1}'))
    assert await client.post(endpoint(hook), b'{"b": 2}', seconds=29.1) == b'{"a": 1}'
    ((head, body),) = hook.asked
    first, *fields = head.decode().strip().split("\r\n")
    assert (first, body) == ("POST /hook?timeout=30s HTTP/1.1", b'{"b": 2}')
    assert sorted(fields) == [
        "Accept-Encoding: identity", "Accept: application/json, */*", "Content-Length: 8",
        "Content-Type: application/json", f"Host: 127.0.0.1:{hook.port}", "User-Agent: fleethook",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "seconds", "called"),
    [
        ("https://h/p", 10, "https://h/p?timeout=10s"),
        ("https://h", 0.2, "https://h/?timeout=1s"),
        ("https://h:8443/a%2Fb/c", 30.0, "https://h:8443/a%2Fb/c?timeout=30s"),
        ("https://h/p?x=1&timeout=99s#frag", 1, "https://h/p?x=1&timeout=1s"),
        ("https://user:secret@h/p", 1, "https://h/p?timeout=1s"),
        ("HTTPS://h/p q", 1, "https://h/p%20q?timeout=1s"),
    ],
)
def test_the_timeout_query_has_whole_seconds(url: str, seconds: float, called: str) -> None:
    assert str(called_url(url, seconds)) == called


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://h/p", 'Post "http://h/p": unsupported protocol scheme "http"'),
        ("", 'Post "": unsupported protocol scheme ""'),
        ("file:///etc/passwd", 'Post "file:///etc/passwd": unsupported protocol scheme "file"'),
        ("https:///p", 'Post "https:///p": no Host in request URL'),
        ("https://h:99999/", 'Post "https://h:99999/": invalid URL: Port out of range 0-65535'),
        (
            "https://h\r\nX: y/",
            'Post "https://h\\r\\nX: y/": invalid URL: Invalid URL: port can\'t be converted to integer',
        ),
        ("https://\ud800/", 'Post "https://\\ud800/": invalid URL: '),
    ],
)
async def test_other_urls_than_https_are_not_called(client: HookClient, url: str, text: str) -> None:
    error = await catch_call_error(client, WebhookEndpoint(url))
    assert str(error).startswith(f"failed to call webhook: {text}")
    assert isinstance(error, NotCalledError)


def silent_hook(hook: RawHook) -> asyncio.Event:
    """Delay the responses of a webhook until the event is set."""
    answering = asyncio.Event()

    async def answer(_: object, writer: asyncio.StreamWriter) -> None:
        await answering.wait()
        writer.write(http())

    hook.answer = answer
    return answering


async def test_a_deadline_before_the_webhooks_timeout_cuts_the_call_short(client: HookClient, hook: RawHook) -> None:
    silent_hook(hook)
    error = await catch_call_error(client, endpoint(hook), seconds=10, within=0.1)
    assert (error.timed_out, error.cut_short) == (True, True)


async def test_an_exhausted_quota_refuses_the_call_and_names_the_limit(hook: RawHook) -> None:
    answering = silent_hook(hook)
    async with HookClient(allow_private=True, max_calls=1) as client:
        a = Parties("root:p", "root:a")
        first = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET, parties=a))
        await until(lambda: hook.asked)
        error = await catch_call_error(client, endpoint(hook), seconds=0.2, parties=a)
        assert isinstance(error, OverloadedError)
        assert str(error) == (
            f'failed to call webhook: Post "{hook.url}?timeout=1s": '
            "1 of at most 1 calls are in flight, 1 of them for logical cluster 'root:a'"
        )
        answering.set()
        await first
        assert (len(hook.asked), client.calls.total, client.calls.waiting) == (1, 0, 0)


async def test_a_call_that_waited_keeps_the_webhooks_timeout(hook: RawHook) -> None:
    answering = silent_hook(hook)
    async with HookClient(allow_private=True, max_calls=1) as client:
        first = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET))
        await until(lambda: hook.asked)
        second = asyncio.create_task(client.post(endpoint(hook), lambda: b"{}", seconds=7, within=NET))
        await until(lambda: client.calls.waiting)
        answering.set()
        assert await asyncio.gather(first, second) == [b"{}", b"{}"]
    assert hook.asked[1].head.startswith(b"POST /hook?timeout=7s ")


async def test_exhausted_file_descriptors_are_no_failure_of_the_webhook(client: HookClient, hook: RawHook) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limit[1]))
    try:
        error = await catch_call_error(client, endpoint(hook))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert "this server cannot open another connection" in str(error)
    assert isinstance(error, OverloadedError)


async def test_a_cancelled_call_closes_its_connection(client: HookClient, hook: RawHook) -> None:
    asked = asyncio.Event()

    async def hang(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    good, hook.answer = hook.answer, hang
    for _ in range(2):
        asked.clear()
        task = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=30))
        await asyncio.wait_for(asked.wait(), NET)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
    hook.answer = good
    assert await client.post(endpoint(hook), b"{}", seconds=10) == b"{}"
    assert hook.connections == 3


BUSY = "429 Too Many Requests"


def retried_endpoint(hook: RawHook) -> WebhookEndpoint:
    return WebhookEndpoint(hook.url, ca_bundle=hook.ca_bundle)


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
        await client.post(retried_endpoint(hook), b"{}", **{"seconds": NET, **rest})
    return raised.value


@pytest.mark.parametrize("status", [BUSY, "500 Oops", "502 Oops", "503 Oops", "599 Oops"])
async def test_a_retry_sends_the_same_request_over_the_same_connection(
    client: HookClient, hook: RawHook, status: str
) -> None:
    hook.answer = in_turn(respond(busy(status=status)), respond(busy(status=status)), respond(http(b'{"a": 1}')))
    assert await client.post(retried_endpoint(hook), b'{"large": "body"}', seconds=30) == b'{"a": 1}'
    assert hook.asked == [hook.asked[0]] * 3
    assert hook.asked[0].body == b'{"large": "body"}'
    assert hook.asked[0].head.startswith(b"POST /hook?timeout=30s ")
    assert hook.connections == 1
    assert client.retries == ({"429": 2, "5xx": 0} if status == BUSY else {"429": 0, "5xx": 2})


@pytest.mark.parametrize("header", ["0", "+0", "-1", "-999999999", "000", " 0 "])
async def test_seconds_are_parsed_as_in_go(client: HookClient, hook: RawHook, header: str) -> None:
    hook.answer = in_turn(respond(busy(header)), respond(http()))
    assert await client.post(retried_endpoint(hook), b"{}", seconds=NET) == b"{}"


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
    assert await client.post(retried_endpoint(hook), b"{}", seconds=NET) == b"{}"
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
        "the Retry-After of 20 s exceeds the remaining time"
    )
    assert (error.code, error.timed_out, error.cut_short) == (429, False, cut_short)
    assert len(hook.asked) == 1
    assert client.calls.total == 0


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
    async with HookClient(allow_private=True, max_calls=1) as client:
        first = asyncio.create_task(client.post(retried_endpoint(hook), b"{}", seconds=NET))
        await until(lambda: len(hook.asked) == 2)
        second = asyncio.create_task(client.post(retried_endpoint(hook), b"{}", seconds=NET))
        await until(lambda: client.calls.waiting)
        assert (client.calls.total, len(hook.asked)) == (1, 2)
        release.set()
        assert await asyncio.gather(first, second) == [b'"first"', b'"second"']
        assert (client.calls.total, client.calls.waiting, hook.most_open) == (0, 0, 1)


async def test_a_call_cancelled_before_a_retry_releases_its_slot(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(busy("5"))
    task = asyncio.create_task(client.post(retried_endpoint(hook), b"{}", seconds=NET))
    await until(lambda: hook.asked)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (task.cancelled(), client.calls.total, len(hook.asked)) == (True, 0, 1)


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
    assert await client.post(retried_endpoint(hook), b"{}", seconds=NET) == b'{"a": 1}'


async def test_only_the_beginning_of_a_discarded_response_is_read(client: HookClient, hook: RawHook) -> None:
    head = b"HTTP/1.1 503 Oops\r\nRetry-After: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
    hook.answer = in_turn(respond(head + b"1000\r\n" + b"x" * 4096), respond(http()))
    assert await client.post(retried_endpoint(hook), b"{}", seconds=NET) == b"{}"
    assert hook.connections == 2


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"fleethook-hops", b"1")], True),
        ([(b"host", b"h"), (b"fleethook-hops", b"")], True),
        ([(b"host", b"fleethook-hops")], False),
        ([], False),
    ],
)
def test_a_header_with_any_value_marks_a_dispatched_review(
    headers: list[tuple[bytes, bytes]], *, expected: bool
) -> None:
    assert was_dispatched(headers) is expected


def test_calls_of_the_dispatch_engine_are_recognized() -> None:
    assert was_dispatched((name.lower().encode(), value.encode()) for name, value in OUTGOING.items())
    assert set(OUTGOING) == {HEADER}
