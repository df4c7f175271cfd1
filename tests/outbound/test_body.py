"""Response bodies with a Content-Encoding."""

import gzip
import zlib

import pytest

from fleethook.outbound.client import HookClient
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import RawHook, http, respond


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
    hook.answer = respond(http(body, content_encoding=encoding))
    assert text in str(await catch_call_error(client, endpoint(hook)))
