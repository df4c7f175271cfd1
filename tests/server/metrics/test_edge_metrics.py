"""The metrics of the limits at the HTTP edge."""

import socket

import pytest

from fleethook.app import create_app
from fleethook.server.protocol.body_memory import BodyCharge, OverBudgetError
from fleethook.server.protocol.connections import Connections, Stage
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.server.protocol.test_connections import Held

TYPES = (
    "fleethook_connections", "fleethook_connections_limit", "fleethook_connections_closed_total",
    "fleethook_connections_health_only_total", "fleethook_body_bytes", "fleethook_body_bytes_limit",
    "fleethook_bodies_refused_total",
)  # fmt: skip


async def test_connections_and_bodies_are_counted_with_their_limits() -> None:
    app = create_app(Settings(max_connections=2, body_memory=2**20), log=None)

    async def found() -> dict[str, float]:
        lines = (await call(app, "/metrics", method="GET")).body.decode().splitlines()
        return {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if name in TYPES}

    # A server that does not listen has no connections.
    assert set(await found()) == set(TYPES[4:])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        app.connections = Connections(app.capacity.connections)
        for stage in (Stage.IDLE, Stage.ANSWERING, Stage.ANSWERING, Stage.ANSWERING):
            app.connections.admit(ours, ("10.0.0.1", 1)).exchange = Held(stage)
        app.bodies._max_wait = 0.0  # type: ignore[misc]
        with BodyCharge(app.bodies, "a") as charge, BodyCharge(app.bodies, "b") as other:
            await charge.add(2**18 + 2**17)
            await charge.add(2**17)
            await other.add(1)
            with pytest.raises(OverBudgetError):
                await other.add(2**19)
            assert await found() == dict(zip(TYPES, (3, 2, 1, 1, 2**19 + 1, 2**20, 1), strict=True))
    assert (await found())["fleethook_body_bytes"] == 0
