"""Hooks for a chain: `python -m benchmarks.engines.dispatch_hooks DIR` serves over TLS, and writes tls.* into DIR.

They run in their own process, so that no figure includes their cost. All answers are equal except for the uid.
"""

import asyncio
import base64
import ssl
import sys
from pathlib import Path

import uvloop

from tests.hook_server import tls

AUTHORITY = "authority.pem"


class Answering(asyncio.Protocol):
    """A hook; the uid is the first in a review."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]):
            return
        self.buffer = b""
        uid = body.partition(b'"uid":"')[2].partition(b'"')[0]
        _, phase, number = head.split(b"?", 1)[0].split(b"/")
        answer = self.answer(phase == b"mutating", int(number), uid)
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)
        )

    @staticmethod
    def answer(mutating: bool, number: int, uid: bytes) -> bytes:  # noqa: FBT001 - no caller but the one above
        patch = b""
        if mutating:
            text = b'[{"op":"add","path":"/metadata/labels/hook-%d","value":"seen"}]' % number
            patch = b',"patchType":"JSONPatch","patch":"%b"' % base64.b64encode(text)
        return (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%b","allowed":true%b}}'
            % (uid, patch)
        )


async def serve(directory: Path) -> None:
    """Serve until killed."""
    _, ca_bundle = tls(directory)
    (directory / AUTHORITY).write_bytes(base64.b64decode(ca_bundle))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, ssl=context)
    print(f"serving on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))
