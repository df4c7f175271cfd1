"""OpenSSL's handshake in memory: the part of a new connection that is neither Python nor the kernel."""

import contextlib
import os
import ssl
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fleethook.cluster.certificates.authority_and_serving_certificate import (
    CertificateFiles,
    ReloadingContext,
    create_server_context,
)

COUNT = 1_000


def handshake(directory: Path, core: int) -> dict[str, float]:
    """Return the CPU time of the server's side of a handshake, TLS 1.3, and of its parts, in µs.

    ``callback_us`` and ``tickets_us`` are the additional time of each. Variants take turns; the values are medians.

    Args:
        directory: With ``tls.crt``, ``tls.key`` and ``ca.crt``.
        core: The core to run on.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        return _measure(
            CertificateFiles(*(directory / name for name in ("tls.crt", "tls.key", "ca.crt")), created=False)
        )
    finally:
        os.sched_setaffinity(0, before)


def _measure(files: CertificateFiles) -> dict[str, float]:
    key = load_pem_private_key(files.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    peer = x25519.X25519PrivateKey.generate().public_key()
    client = ssl.create_default_context(cafile=str(files.authority_certificate))
    resuming = create_server_context(files, None)
    resuming.num_tickets = 2  # OpenSSL's default
    _, session = _shake(resuming, client, None)
    ways = {
        "server_us": (create_server_context(files, None), client, None),
        "callback_us": (ReloadingContext(files).context, client, None),
        "tickets_us": (resuming, client, None),
        "resumed_us": (resuming, client, session),
    }
    turns = [{name: _shake(*way)[0] for name, way in ways.items()} for _ in range(COUNT)]
    found = {name: statistics.median(turn[name] for turn in turns) / 1e3 for name in ways}
    more = {name: found[name] - found["server_us"] for name in ("callback_us", "tickets_us")}
    return {
        **found, **more,
        "sign_us": _us(lambda: key.sign(b"m" * 130, ec.ECDSA(hashes.SHA256()))),
        "exchange_us": _us(lambda: x25519.X25519PrivateKey.generate().exchange(peer)),
    }  # fmt: skip


def _us(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(COUNT):
        began = time.thread_time_ns()
        call()
        taken.append(time.thread_time_ns() - began)
    return statistics.median(taken) / 1e3


def _shake(
    server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[int, ssl.SSLSession]:
    """Make one handshake; return its ns on the server's side, and the session."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname="localhost", session=session)
    _advance(asking)
    began = time.thread_time_ns()
    answering = server.wrap_bio(there, back, server_side=True)
    _advance(answering)
    spent = time.thread_time_ns() - began
    _advance(asking)
    began = time.thread_time_ns()
    answering.do_handshake()
    spent += time.thread_time_ns() - began
    answering.write(b"x")
    asking.read(1)  # tickets come before it
    assert asking.session is not None
    assert asking.session_reused is (session is not None)
    return spent, asking.session


def _advance(side: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
