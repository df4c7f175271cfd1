"""Bodies of the responses of webhooks."""

import gzip
import zlib

import pytest

from fleethook.outbound.calls_and_retries import HookClient
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import RawHook, http, respond


@pytest.mark.parametrize("code", [200, 201, 202, 203, 205, 206])
async def test_statuses_200_to_206_are_successes(client: HookClient, hook: RawHook, code: int) -> None:
    hook.answer = respond(http(b"<what it is is for the caller to see>", status=f"{code} Fine"))
    assert await client.post(endpoint(hook), b"{}", seconds=10) == b"<what it is is for the caller to see>"


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
