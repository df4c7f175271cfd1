"""Tests of the memory limit of control groups."""

import socket
from pathlib import Path

import pytest

from fleethook.app import create_app
from fleethook.server.protocol.bodies import BodyCharge, OverBudgetError
from fleethook.server.protocol.capacity import derive_capacity, find_memory_limit
from fleethook.server.protocol.connections import Connections, ConnectionStage
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.server.protocol.test_connections import Held

MI = 1 << 20


PHYSICAL = find_memory_limit(Path("/nonexistent"))


def root(directory: Path, name: str, text: str) -> Path:
    file = directory / "sys" / "fs" / "cgroup" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return directory


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory.max", "1048576\n", 1048576),
        ("memory.max", "max\n", PHYSICAL),
        ("memory/memory.limit_in_bytes", "6291456\n", 6291456),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", PHYSICAL),
    ],
)
def test_the_memory_limit_is_that_of_the_container(tmp_path: Path, name: str, text: str, expected: int) -> None:
    assert find_memory_limit(root(tmp_path, name, text)) == expected


def test_the_memory_of_the_machine_limits_a_larger_group(tmp_path: Path) -> None:
    assert find_memory_limit(root(tmp_path, "memory.max", str(PHYSICAL + 1))) == PHYSICAL


GI = 1 << 30
FILES = 1 << 20


@pytest.mark.parametrize(
    ("given", "memory", "open_files", "connections", "bodies"),
    [
        ({}, GI, FILES, 256, GI // 4),
        ({}, 64 << 20, FILES, 64, 16 << 20),
        ({"body_limit": 32 << 20}, 64 << 20, FILES, 64, 64 << 20),
        ({}, 1024 * GI, FILES, 16384, 256 * GI),
        ({}, GI, 400, 144, GI // 4),
        ({}, GI, 100, 1, GI // 4),
        ({"max_connections": 7, "body_memory": "2Mi"}, GI, FILES, 7, 2 << 20),
    ],
)
def test_capacity_is_a_quarter_of_the_memory_each(
    given: dict[str, object], memory: int, open_files: int, connections: int, bodies: int
) -> None:
    found = derive_capacity(Settings.model_validate(given), memory=memory, open_files=open_files)
    assert found == (connections, bodies)


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
        app.connections = Connections(app.parts.capacity.connections)
        for stage in (
            ConnectionStage.IDLE,
            ConnectionStage.ANSWERING,
            ConnectionStage.ANSWERING,
            ConnectionStage.ANSWERING,
        ):
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
