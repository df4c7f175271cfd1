import asyncio

import pytest

from app.control.pace import Pace


async def test_a_burst_is_at_once_and_the_rest_at_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    time = 1000.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal time
        slept.append(round(seconds, 6))
        time += seconds

    monkeypatch.setattr(loop, "time", lambda: time)
    monkeypatch.setattr("app.control.pace.asyncio.sleep", sleep)
    pace = Pace(10, burst=3)
    for _ in range(5):
        await pace.step()
    assert slept == [0.1, 0.1]
    time += 100
    slept.clear()
    for _ in range(3):
        await pace.step()
    assert slept == []
