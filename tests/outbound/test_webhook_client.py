"""Requests to webhooks, their responses, and the connections, quotas and breakers of calls."""

import asyncio
import os
import resource

import pytest

from fleethook.outbound.http_exchange import NotCalledError, OverloadedError
from fleethook.outbound.webhook_client import HookClient, Parties, called_url
from fleethook.outbound.webhook_endpoint import WebhookEndpoint
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import RawHook, http, respond
from tests.waiting import NET, until


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
