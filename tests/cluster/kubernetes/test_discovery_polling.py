import asyncio

from fleethook.cluster.kubernetes.discovery_polling import DiscoveryPauses


class Sleeps:
    """Pauses that the test ends, or that end at once."""

    def __init__(self, *, endless: bool = False) -> None:
        self.slept: list[float] = []
        self._endless = endless

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._endless:
            await asyncio.Event().wait()


async def test_pauses_are_long_without_a_change() -> None:
    sleeps = Sleeps()
    pauses = DiscoveryPauses(10.0, sleep=sleeps.sleep)
    for _ in range(3):
        await pauses.pause()
    assert sleeps.slept == [10.0] * 3


async def test_pauses_after_a_change_are_short_and_grow_to_the_usual_one() -> None:
    sleeps = Sleeps()
    pauses = DiscoveryPauses(0.5, sleep=sleeps.sleep)
    pauses.end()
    for _ in range(5):
        await pauses.pause()
    assert sleeps.slept == [0.1, 0.2, 0.4, 0.5, 0.5]


async def test_end_ends_the_current_pause_and_the_next_is_the_shortest() -> None:
    sleeps = Sleeps(endless=True)
    pauses = DiscoveryPauses(10.0, sleep=sleeps.sleep)
    for expected in ([10.0], [10.0, 0.1]):
        pausing = asyncio.create_task(pauses.pause())
        while sleeps.slept != expected:
            await asyncio.sleep(0)
        assert not pausing.done()
        pauses.end()
        await asyncio.wait_for(pausing, 60)
