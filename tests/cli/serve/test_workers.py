import asyncio
import os
import socket

import pytest
import uvloop

from fleethook.cli.serve.workers import LISTENER_VARIABLE, inherit_listeners, listen


def test_a_process_without_a_parent_inherits_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LISTENER_VARIABLE, raising=False)
    assert inherit_listeners() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connections_of_a_worker_do_not_wait_for_acknowledgements(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm is off for accepted connections, as in a process that opens its own listener."""
    seen: list[int] = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted = transport.get_extra_info("socket")
            seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def serve(listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Protocol, sock=listener)
        async with server:
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            assert await reader.read() == b""
            writer.close()

    with listen(host, 0) as made:
        # A child process knows only the number of the descriptor.
        monkeypatch.setenv(LISTENER_VARIABLE, str(os.dup(made.fileno())))
        (listener,) = inherit_listeners() or []
        with listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(listener))
    assert seen == [1]
