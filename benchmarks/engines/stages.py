"""The stages of an UPDATE review, with timings of single stages and shares from a profile."""

import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

CONNECTION, HTTP, EDGE = "connection", "http", "edge"
ANSWERING = ("decode", "render", "encode", "metrics", "log")
STAGES = (CONNECTION, HTTP, EDGE, *ANSWERING)
"""A server stops after each of these stages; its cost minus that of the server before it is the cost of the stage."""
TIMED = "timed"
TLS, READ, WRITE, LOOP = "TLS", "socket read", "socket write", "event loop"
TITLES = {
    TLS: "TLS records, in and out", READ: "socket read", WRITE: "socket write", LOOP: "event loop, the rest of a connection",
    HTTP: "HTTP parsing, uvicorn, routing", EDGE: "headers, limits, answer", "decode": "decode the review",
    "render": "look up, decode the object, render", "encode": "encode patch and answer", "metrics": "metrics", "log": "log line",
}  # fmt: skip
_COUNT = 2_000

# A stack belongs to the stage whose function it contains, else to the stage of its innermost known frame.
_FUNCTIONS = {
    "decode": r"(^|\.)decode_review ", "render": r"(^|\.)_handle ", "encode": r"(^|\.)encode_response ",
    "metrics": r"(^|\.)count_review ", "log": r"(^|\.)(_describe|make_admission_line|encode_line|write_line) ",
}  # fmt: skip
_PLACES = {
    TLS: r"libssl|libcrypto|_ssl\.c|sslproto|\b_?ssl_|SSL|tls13_|^(aesni|aes|gcm|EVP|CRYPTO|BIO)_|memoryview_?bio",
    WRITE: r"^(__)?(libc_)?(write|writev|send|sendmsg|sendto) |uv__(try_)?write|uv_try_write",
    READ: r"^(__)?(libc_)?(read|readv|recv|recvmsg) |uv__read",
    HTTP: r"httptools|protocol/(head_limits_and_timeouts|direct_protocol|connections)\.py|app/fleethook/app\.py",
    EDGE: r"server/\w+/(endpoint|review_endpoint|admission_endpoint|body_memory|sending)\.py|work/threads\.py",
}
_IDLE = ("Thread._bootstrap", "_queue_SimpleQueue_get")


def shares(raw: str) -> dict[str, float]:
    """Return the share of samples by stage, from py-spy's ``raw`` format: stacks with their counts."""
    found: dict[str, int] = {}
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        if not any(idle in stack for idle in _IDLE):  # threads that always wait
            owner = _owner(stack.split(";"))
            found[owner] = found.get(owner, 0) + int(count)
    total = sum(found.values())
    return {owner: count / total for owner, count in found.items()}


def _owner(frames: list[str]) -> str:
    for owner, pattern in _FUNCTIONS.items():
        if any(re.search(pattern, frame) for frame in frames):
            return owner
    for frame in reversed(frames):
        for owner, pattern in _PLACES.items():
            if re.search(pattern, frame):
                return owner
    return LOOP


def clock_ns() -> float:
    """Return the cost of reading the CPU clock of this thread; it stops while another process has the core."""
    now, count = time.thread_time_ns, 20_000
    started = now()
    for _ in range(count):
        now()
    return (now() - started) / count


def tls_us(context: ssl.SSLContext, authority: Path, request: int, answer: int) -> float:
    """Return the CPU time of decrypting a request and encrypting an answer through memory, as an event loop does."""
    client = ssl.create_default_context(cafile=str(authority))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    ours = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (theirs, ours, theirs, ours):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    asked, answered, spent = bytes(request), bytes(answer), 0
    for _ in range(_COUNT):
        theirs.write(asked)
        arrived = to_server.read()
        started = time.thread_time_ns()
        to_server.write(arrived)
        missing = request
        while missing:
            missing -= len(ours.read(256 * 1024))
        ours.write(answered)
        sent = to_client.read()
        spent += time.thread_time_ns() - started
        to_client.write(sent)
        got = 0
        while got < answer:
            got += len(theirs.read(256 * 1024))
    return (spent / _COUNT - clock_ns()) / 1e3


def sockets_us(request: int, answer: int) -> tuple[float, float]:
    """Return the CPU time of reading ``request`` bytes from a loopback connection, and of writing ``answer`` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reading, writing = 0, 0
            for _ in range(_COUNT):
                client.sendall(bytes(request))
                reading += _time_ns(lambda: _receive(server, request))
                writing += _time_ns(lambda: server.sendall(bytes(answer)))
                _receive(client, answer)
    clock = clock_ns()
    return (reading / _COUNT - clock) / 1e3, (writing / _COUNT - clock) / 1e3


def _time_ns(call: Callable[[], object]) -> int:
    started = time.thread_time_ns()
    call()
    return time.thread_time_ns() - started


def _receive(connection: socket.socket, count: int) -> None:
    while count:
        count -= len(connection.recv(256 * 1024))
