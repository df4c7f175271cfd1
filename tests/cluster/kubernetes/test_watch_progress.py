import asyncio

from fleethook.cluster.kubernetes.watch_progress import Progress


async def test_a_bookmark_moves_what_was_seen_but_not_the_last_change() -> None:
    progress = Progress()
    progress.restart("10")
    progress.change("12")
    progress.advance("20")
    assert (progress.place, progress.seen, progress.changed) == ("20", 20, 12)


async def test_waiters_wake_in_the_order_of_their_versions() -> None:
    progress = Progress()
    progress.restart("10")
    woken: list[int] = []

    async def wait(version: int) -> None:
        await progress.wait_for(version)
        woken.append(version)

    waiting = [asyncio.create_task(wait(version)) for version in (15, 12, 10, 15)]
    for place, expected in (("11", [10]), ("12", [10, 12]), ("30", [10, 12, 15, 15])):
        progress.advance(place)
        for _ in range(3):
            await asyncio.sleep(0)
        assert woken == expected
    await asyncio.gather(*waiting)


async def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    progress = Progress()
    cancelled, other = (asyncio.create_task(progress.wait_for(version)) for version in (5, 6))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    progress.advance("6")
    await asyncio.wait_for(other, 60)
    assert cancelled.cancelled()


async def test_a_list_of_a_restored_etcd_sets_the_progress_back() -> None:
    progress = Progress()
    progress.restart("1000")
    progress.restart("50")
    assert (progress.place, progress.seen, progress.changed) == ("50", 50, 50)
