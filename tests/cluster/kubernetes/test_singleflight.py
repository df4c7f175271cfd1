"""Callers that share live reads; the test ends each read."""

import asyncio

import pytest

from fleethook.cluster.kubernetes.singleflight import SharedReads


class Reads:
    """Reads of one key, each of which waits for `end`."""

    def __init__(self) -> None:
        self.shared = SharedReads()
        self.started = 0
        self._ends: list[asyncio.Future[None]] = []

    async def _read(self) -> None:
        self.started += 1
        end = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        await end

    async def ask(self, key: str = "k") -> "asyncio.Task[None]":
        """Start a caller, and return when it waits for its read."""
        task = asyncio.create_task(self.shared.join(key, self._read))
        await turns()
        return task

    async def end(self, number: int, error: Exception | None = None) -> None:
        if error is None:
            self._ends[number].set_result(None)
        else:
            self._ends[number].set_exception(error)
        await turns()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_caller_does_not_use_a_read_that_started_before_it() -> None:
    reads = Reads()
    first, second, third = await reads.ask(), await reads.ask(), await reads.ask()
    assert reads.started == 1
    await reads.end(0)
    assert (first.done(), second.done(), third.done(), reads.started) == (True, False, False, 2)
    await reads.end(1)
    assert second.done()
    assert third.done()
    assert reads.started == 2


async def test_concurrent_callers_share_one_read() -> None:
    reads = Reads()
    callers = [asyncio.create_task(reads.shared.join("k", reads._read)) for _ in range(50)]
    await turns()
    assert reads.started == 1
    await reads.end(0)
    assert all(caller.done() for caller in callers)


async def test_keys_do_not_wait_for_each_other() -> None:
    reads = Reads()
    await reads.ask("a")
    await reads.ask("b")
    assert reads.started == 2
    await reads.end(0)
    await reads.end(1)


async def test_a_failure_reaches_all_callers_but_not_the_next_read() -> None:
    reads = Reads()
    first, second, third = await reads.ask(), await reads.ask(), await reads.ask()
    await reads.end(0, ValueError("first"))
    await reads.end(1, ValueError("second"))
    fourth = await reads.ask()
    await reads.end(2)
    with pytest.raises(ValueError, match="first"):
        await first
    for caller in (second, third):
        with pytest.raises(ValueError, match="second"):
            await caller
    await fourth


async def test_a_cancelled_caller_does_not_cancel_the_read() -> None:
    reads = Reads()
    first, second, third = await reads.ask(), await reads.ask(), await reads.ask()
    first.cancel()
    second.cancel()
    await turns()
    await reads.end(0)
    await reads.end(1)
    assert third.done()
    assert not third.cancelled()
    assert reads.started == 2
