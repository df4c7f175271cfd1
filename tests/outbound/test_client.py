"""Requests to webhooks, their responses, and the connections, quotas and breakers of calls."""

import asyncio
import base64
import gzip
import json
import os
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest

from app.outbound.breaker import MAX_FAILURES
from app.outbound.call_slots import Quotas
from app.outbound.client import CallError, HookClient, Parties, called_url
from app.outbound.endpoint import Endpoint
from app.outbound.errors import NotCalledError, OverloadedError
from app.outbound.pool import PoolKey, Pools
from tests.hook_server import RawHook, http, raw_hooking, says, tls
from tests.waiting import NET, until


def endpoint(hook: RawHook, **rest: Any) -> Endpoint:
    return Endpoint(**{"url": hook.url, "ca_bundle": hook.ca_bundle, **rest})


async def failure(client: HookClient, where: Endpoint, **rest: Any) -> CallError:
    with pytest.raises(CallError) as raised:
        await client.post(where, b"{}", **{"seconds": 10, **rest})
    return raised.value


async def test_requests_equal_those_of_kube_apiserver_and_forbid_compression(client: HookClient, hook: RawHook) -> None:
    hook.answer = says(http(b'{"a": 1}'))
    assert await client.post(endpoint(hook), b'{"b": 2}', seconds=2.1) == b'{"a": 1}'
    ((head, body),) = hook.asked
    first, *fields = head.decode().strip().split("\r\n")
    assert (first, body) == ("POST /hook?timeout=3s HTTP/1.1", b'{"b": 2}')
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
    error = await failure(client, Endpoint(url))
    assert str(error).startswith(f"failed to call webhook: {text}")
    assert isinstance(error, NotCalledError)


@pytest.mark.parametrize("bundle", ["%%%", "====", "ü", *(base64.b64encode(text.encode()).decode() for text in (
    " ", "no certificate", "ключ", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
))])  # fmt: skip
async def test_an_invalid_ca_bundle_does_not_fall_back_to_the_system(
    client: HookClient, hook: RawHook, bundle: str
) -> None:
    error = await failure(client, endpoint(hook, ca_bundle=bundle))
    assert str(error).endswith(": unable to load root certificates: unable to parse bytes as PEM block")
    assert isinstance(error, NotCalledError)
    assert hook.connections == 0


@pytest.mark.parametrize("code", [200, 201, 202, 203, 205, 206])
async def test_statuses_200_to_206_are_successes(client: HookClient, hook: RawHook, code: int) -> None:
    hook.answer = says(http(b"<what it is is for the caller to see>", status=f"{code} Fine"))
    assert await client.post(endpoint(hook), b"{}", seconds=10) == b"<what it is is for the caller to see>"


STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no,\nreally", "code": 403}
UNKNOWN = "the server responded with the status code {} but did not return more information"


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (207, b"x", UNKNOWN.format(207)),
        (304, b"", UNKNOWN.format(304)),
        (400, b"x", "the server rejected our request for an unknown reason"),
        (403, b"who are\tyou", "who are\\tyou"),
        (403, b"", UNKNOWN.format(403)),
        (404, b"x", "the server could not find the requested resource"),
        (418, b"x", UNKNOWN.format(418)),
        (429, b"", "the server has received too many requests and has asked us to try again later"),
        (500, b' a "quoted"\n ', 'an error on the server ("a \\"quoted\\"") has prevented the request from succeeding'),
        (500, b"a\nb", 'an error on the server ("a\\nb") has prevented the request from succeeding'),
        (500, b"", 'an error on the server ("unknown") has prevented the request from succeeding'),
        (502, b"\xff", 'an error on the server ("\ufffd") has prevented the request from succeeding'),
        (503, b"x", "the server is currently unable to handle the request"),
        (500, json.dumps(STATUS).encode(), "no,\\nreally"),
        (404, json.dumps(STATUS).encode(), "no,\\nreally"),
        (404, json.dumps({**STATUS, "message": 5}).encode(), "the server could not find the requested resource"),
        (404, json.dumps({**STATUS, "status": "Success"}).encode(), "the server could not find the requested resource"),
        (404, json.dumps({**STATUS, "kind": "Other"}).encode(), "the server could not find the requested resource"),
        (404, b"[" * 100_000, "the server could not find the requested resource"),
    ],
)  # fmt: skip
async def test_other_statuses_fail_with_the_messages_of_kubernetes(
    client: HookClient, hook: RawHook, status: int, body: bytes, text: str
) -> None:
    hook.answer = says(http(body, status=f"{status} Whatever"))
    error = await failure(client, endpoint(hook))
    assert (str(error), error.code, error.timed_out) == (f"failed to call webhook: {text}", status, False)


async def test_long_errors_are_cut(client: HookClient, hook: RawHook) -> None:
    hook.answer = says(http(b"e" * 5_000, status="500 Oops"))
    text = str(await failure(client, endpoint(hook)))
    assert text.count("e" * 2048) == 1
    assert len(text) < 2048 + 150
    hook.answer = says(http(json.dumps({**STATUS, "message": "e" * 5_000}).encode(), status="500 Oops"))
    assert str(await failure(client, endpoint(hook))) == "failed to call webhook: " + "e" * 2048


@pytest.mark.parametrize(("status", "code"), [("200 OK", 200), ("204 No Content", 204)])
async def test_an_empty_body_is_an_error(client: HookClient, hook: RawHook, status: str, code: int) -> None:
    hook.answer = says(http(b"", status=status, content_type="text/plain"))
    error = await failure(client, endpoint(hook))
    assert str(error) == (
        f"failed to call webhook: 0-length response with status code: {code} and content type: text/plain"
    )
    assert error.code == code


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b'{"a": 1}', mtime=0)),
        ("GZip", gzip.compress(b'{"a": 1}', mtime=0)),
        ("deflate", zlib.compress(b'{"a": 1}')),
        ("deflate", zlib.compress(b'{"a": 1}', wbits=-15)),
        ("identity", b'{"a": 1}'),
    ],
)
async def test_compressed_responses_are_decompressed(
    client: HookClient, hook: RawHook, encoding: str, body: bytes
) -> None:
    hook.answer = says(http(body, content_encoding=encoding))
    assert await client.post(endpoint(hook), b"{}", seconds=10) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("gzip", b"no gzip", "its response cannot be decompressed: Error -3 while decompressing data"),
        ("deflate", b"no deflate", "its response cannot be decompressed: Error -3 while decompressing data"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-9], "its response cannot be decompressed: it is truncated"),
        (
            "gzip",
            gzip.compress(b"{}", mtime=0) * 2,
            "its response cannot be decompressed: it is truncated or has trailing data",
        ),
        ("br", b"x", "its response has the Content-Encoding 'br', although the request allows identity only"),
        (
            "gzip, gzip",
            b"x",
            "its response has the Content-Encoding 'gzip, gzip', although the request allows identity only",
        ),
    ],
)
async def test_undecompressable_responses_are_errors(
    client: HookClient, hook: RawHook, encoding: str, body: bytes, text: str
) -> None:
    hook.answer = says(http(body, content_encoding=encoding))
    assert text in str(await failure(client, endpoint(hook)))


async def test_consecutive_calls_share_a_connection(client: HookClient, hook: RawHook) -> None:
    for path in ("/a", "/b", "/a"):
        await client.post(endpoint(hook, url=f"https://127.0.0.1:{hook.port}{path}"), b"{}", seconds=10)
    assert (len(hook.asked), hook.connections) == (3, 1)


async def test_owners_ca_bundles_and_server_names_do_not_share_connections(client: HookClient, hook: RawHook) -> None:
    more = base64.b64encode(b"a comment\n" + base64.b64decode(hook.ca_bundle)).decode()
    for where, owner in (
        (endpoint(hook), ""), (endpoint(hook), "root:a"), (endpoint(hook), "root:b"),
        (endpoint(hook, server_name="localhost"), "root:a"), (endpoint(hook, ca_bundle=more), "root:a"),
    ):  # fmt: skip
        for _ in range(2):
            await client.post(where, b"{}", seconds=10, parties=Parties(owner))
    assert (len(hook.asked), hook.connections) == (10, 5)


async def test_the_certificate_must_contain_the_server_name(client: HookClient, tmp_path: Path) -> None:
    async with raw_hooking(tmp_path, "other name") as hook:
        assert await client.post(endpoint(hook, server_name="other.example.com"), b"{}", seconds=10) == b"{}"
        error = await failure(client, endpoint(hook))
    assert "x509: certificate is not valid for the called host (" in str(error)


async def test_any_certificate_of_the_bundle_is_a_root(client: HookClient, hook: RawHook, tmp_path: Path) -> None:
    bundle = "# комментарий\n".encode() + (tmp_path / "tls.crt").read_bytes()
    assert await client.post(endpoint(hook, ca_bundle=base64.b64encode(bundle).decode()), b"{}", seconds=10) == b"{}"


def silent_hook(hook: RawHook) -> asyncio.Event:
    """Delay the responses of a webhook until the event is set."""
    answering = asyncio.Event()

    async def answer(_: object, writer: asyncio.StreamWriter) -> None:
        await answering.wait()
        writer.write(http())

    hook.answer = answer
    return answering


async def test_calls_without_response_open_only_the_breaker_of_their_consumer(
    client: HookClient, hook: RawHook
) -> None:
    answering, a, b = silent_hook(hook), Parties("root:p", "root:a"), Parties("root:p", "root:b")
    for _ in range(MAX_FAILURES):
        assert (await failure(client, endpoint(hook), seconds=0.2, parties=a)).timed_out
    assert (client.is_silent(endpoint(hook), a), client.is_silent(endpoint(hook), b)) == (True, False)
    probe = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET, parties=a))
    await until(lambda: len(hook.asked) == MAX_FAILURES + 1)
    error = await failure(client, endpoint(hook), parties=a)
    assert str(error) == (
        f'failed to call webhook: Post "{hook.url}?timeout=10s": '
        "its last calls had no response, and another call is probing it"
    )
    assert (isinstance(error, NotCalledError), len(hook.asked)) == (True, MAX_FAILURES + 1)
    others = [
        asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET, **rest))
        for rest in ({"parties": b}, {"parties": a, "insist": True})
    ]
    await until(lambda: len(hook.asked) == MAX_FAILURES + 3)
    answering.set()
    assert await asyncio.gather(probe, *others) == [b"{}"] * 3
    assert not client.is_silent(endpoint(hook), a)
    await client.post(endpoint(hook), b"{}", seconds=NET, parties=a)


async def test_an_open_breaker_allows_a_probe_when_none_is_in_flight(client: HookClient, hook: RawHook) -> None:
    answering = silent_hook(hook)
    for _ in range(MAX_FAILURES + 1):
        assert (await failure(client, endpoint(hook), seconds=0.2)).timed_out
    answering.set()
    assert await client.post(endpoint(hook), b"{}", seconds=NET) == b"{}"


@pytest.mark.parametrize("status", ["400 No", "422 No", "429 No", "500 Oops", "503 Oops"])
async def test_no_response_is_evidence_against_a_webhook(client: HookClient, hook: RawHook, status: str) -> None:
    hook.answer = says(http(b"", status=status))
    for _ in range(MAX_FAILURES + 1):
        await failure(client, endpoint(hook))
    assert len(hook.asked) == MAX_FAILURES + 1
    assert not client.is_silent(endpoint(hook), Parties())


async def test_a_deadline_before_the_webhooks_timeout_is_no_evidence(client: HookClient, hook: RawHook) -> None:
    silent_hook(hook)
    for _ in range(MAX_FAILURES + 1):
        error = await failure(client, endpoint(hook), seconds=10, within=0.1)
        assert (error.timed_out, error.cut_short) == (True, True)
    assert not client.is_silent(endpoint(hook), Parties())


async def test_a_refused_connection_is_evidence(client: HookClient, hook: RawHook) -> None:
    for _ in range(MAX_FAILURES):
        await failure(client, endpoint(hook, ca_bundle=""))
    assert client.is_silent(endpoint(hook, ca_bundle=""), Parties())
    assert not client.is_silent(endpoint(hook), Parties())


async def test_an_exhausted_quota_refuses_the_call_and_names_the_limit(hook: RawHook) -> None:
    answering = silent_hook(hook)
    async with HookClient(allow_private=True, quotas=Quotas(connections=1)) as client:
        a = Parties("root:p", "root:a")
        first = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET, parties=a))
        await until(lambda: hook.asked)
        error = await failure(client, endpoint(hook), seconds=0.2, parties=a)
        assert isinstance(error, OverloadedError)
        assert error.limit == "connections"
        assert str(error) == (
            f'failed to call webhook: Post "{hook.url}?timeout=1s": '
            "the limit of 1 calls in flight to it for logical cluster 'root:a' is reached"
        )
        answering.set()
        await first
        assert (len(hook.asked), client.slots.under_way, client.slots.queued) == (1, 0, 0)


async def test_a_call_that_waited_keeps_the_webhooks_timeout(hook: RawHook) -> None:
    answering = silent_hook(hook)
    async with HookClient(allow_private=True, quotas=Quotas(connections=1)) as client:
        first = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET))
        await until(lambda: hook.asked)
        second = asyncio.create_task(client.post(endpoint(hook), lambda: b"{}", seconds=7, within=NET))
        await until(lambda: client.slots.queued)
        answering.set()
        assert await asyncio.gather(first, second) == [b"{}", b"{}"]
    assert hook.asked[1].head.startswith(b"POST /hook?timeout=7s ")


async def test_exhausted_file_descriptors_are_no_failure_of_the_webhook(client: HookClient, hook: RawHook) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limit[1]))
    try:
        for _ in range(MAX_FAILURES):
            error = await failure(client, endpoint(hook))
            assert isinstance(error, OverloadedError)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert "this server cannot open another connection" in str(error)
    assert not client.is_silent(endpoint(hook), Parties())


async def test_a_cancelled_call_closes_its_connection_and_is_no_evidence(client: HookClient, hook: RawHook) -> None:
    asked = asyncio.Event()

    async def hang(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    good, hook.answer = hook.answer, hang
    for _ in range(MAX_FAILURES + 1):
        asked.clear()
        task = asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=30))
        await asyncio.wait_for(asked.wait(), NET)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
    hook.answer = good
    assert await client.post(endpoint(hook), b"{}", seconds=10) == b"{}"
    assert hook.connections == MAX_FAILURES + 2


async def test_idle_sessions_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    _, ca_bundle = tls(tmp_path)
    pools = Pools(None, limit=2)

    def key(name: str, partition: str = "p") -> PoolKey:
        return PoolKey(partition, f"https://{name}", "", ca_bundle, guarded=False)

    with pools.lease(key("used")) as used:
        for name in "abc":
            with pools.lease(key(name)) as session:
                pass
        assert len(pools) == 2
        with pools.lease(key("c")) as again, pools.lease(key("used")) as still:
            assert (again is session, still is used) == (True, True)
    await pools.close()
    assert used.closed
    assert session.closed


async def test_many_endpoints_of_one_owner_do_not_close_sessions_of_another(tmp_path: Path) -> None:
    _, ca_bundle = tls(tmp_path)
    pools = Pools(None, limit=3)

    def key(partition: str, number: int) -> PoolKey:
        return PoolKey(partition, f"https://h{number}", "", ca_bundle, guarded=False)

    with pools.lease(key("ws3", 0)) as victims:
        pass
    for number in range(20):
        with pools.lease(key("ws2", number)):
            pass
    with pools.lease(key("ws3", 0)) as again:
        assert again is victims
    assert len(pools) == 3
    await pools.close()
