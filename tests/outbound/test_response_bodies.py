"""Responses of webhooks: their statuses, messages and bodies."""

import gzip
import json
import zlib

import pytest

from fleethook.outbound.calls_and_retries import HookClient
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import RawHook, http, respond


@pytest.mark.parametrize("code", [200, 201, 202, 203, 205, 206])
async def test_statuses_200_to_206_are_successes(client: HookClient, hook: RawHook, code: int) -> None:
    hook.answer = respond(http(b"<what it is is for the caller to see>", status=f"{code} Fine"))
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
    hook.answer = respond(http(body, status=f"{status} Whatever"))
    error = await catch_call_error(client, endpoint(hook))
    assert (str(error), error.code, error.timed_out) == (f"failed to call webhook: {text}", status, False)


async def test_long_errors_are_cut(client: HookClient, hook: RawHook) -> None:
    hook.answer = respond(http(b"e" * 5_000, status="500 Oops"))
    text = str(await catch_call_error(client, endpoint(hook)))
    assert text.count("e" * 2048) == 1
    assert len(text) < 2048 + 150
    hook.answer = respond(http(json.dumps({**STATUS, "message": "e" * 5_000}).encode(), status="500 Oops"))
    assert str(await catch_call_error(client, endpoint(hook))) == "failed to call webhook: " + "e" * 2048


@pytest.mark.parametrize(("status", "code"), [("200 OK", 200), ("204 No Content", 204)])
async def test_an_empty_body_is_an_error(client: HookClient, hook: RawHook, status: str, code: int) -> None:
    hook.answer = respond(http(b"", status=status, content_type="text/plain"))
    error = await catch_call_error(client, endpoint(hook))
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
    hook.answer = respond(http(body, content_encoding=encoding))
    assert await client.post(endpoint(hook), b"{}", seconds=10) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("gzip", b"no gzip", "the response cannot be decompressed: Error -3 while decompressing data"),
        ("deflate", b"no deflate", "the response cannot be decompressed: Error -3 while decompressing data"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-9], "the response cannot be decompressed: it is truncated"),
        (
            "gzip",
            gzip.compress(b"{}", mtime=0) * 2,
            "the response cannot be decompressed: it is truncated or has trailing data",
        ),
        ("br", b"x", "the response has the Content-Encoding 'br', although the request allows identity only"),
        (
            "gzip, gzip",
            b"x",
            "the response has the Content-Encoding 'gzip, gzip', although the request allows identity only",
        ),
    ],
)
async def test_undecompressable_responses_are_errors(
    client: HookClient, hook: RawHook, encoding: str, body: bytes, text: str
) -> None:
    hook.answer = respond(http(body, content_encoding=encoding))
    assert text in str(await catch_call_error(client, endpoint(hook)))
