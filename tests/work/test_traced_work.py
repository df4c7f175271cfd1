"""Work in a span."""

import asyncio

import pytest

from fleethook.tracing.spans import CURRENT
from fleethook.work.pausing import Done, Work
from fleethook.work.traced_work import begin_in_span
from tests.tracing.test_spans import Noted


async def current_name(*, pauses: bool) -> str:
    if pauses:
        await asyncio.sleep(0)
    span = CURRENT.get()
    return "" if span is None else span.headers["traceparent"]


def read_current() -> str:
    span = CURRENT.get()
    return "" if span is None else span.headers["traceparent"]


def work(awaits: int, seen: list[str]) -> Work[str]:
    seen.append(read_current())
    for number in range(awaits):
        seen.append((yield current_name(pauses=bool(number % 2))))
        seen.append(read_current())
    return "done"


def test_work_that_waits_for_nothing_ends_at_once() -> None:
    span, seen = Noted(), list[str]()
    begun = begin_in_span(span, work(0, seen))
    assert begun == Done("done")
    assert (seen, span.ends, CURRENT.get()) == (["root"], [""], None)


async def test_the_span_is_current_in_every_step_and_wait_and_nowhere_else() -> None:
    span, seen = Noted(), list[str]()
    begun = begin_in_span(span, work(3, seen))
    assert not isinstance(begun, Done)
    assert CURRENT.get() is None
    # The rest runs in a task of its own, as in the server.
    task = asyncio.create_task(begun)
    other = asyncio.create_task(current_name(pauses=True))
    assert await task == "done"
    assert await other == ""
    assert seen == ["root"] * 7
    assert span.ends == [""]


async def test_the_work_handles_a_failure_where_it_waits() -> None:
    async def fail() -> None:
        raise ValueError("no")

    def handled() -> Work[str]:
        try:
            yield fail()
        except ValueError as error:
            return f"{error} in {read_current()}"
        return "not raised"

    begun = begin_in_span(Noted(), handled())
    assert not isinstance(begun, Done)
    assert await begun == "no in root"


def test_a_failure_ends_the_span() -> None:
    def fail() -> Work[str]:
        raise ValueError("broken")
        yield  # type: ignore[unreachable]

    span = Noted()
    with pytest.raises(ValueError, match="broken"):
        begin_in_span(span, fail())
    assert span.ends == ["broken"]
    assert CURRENT.get() is None


async def test_a_cancellation_ends_the_span_and_the_work() -> None:
    started, closed = asyncio.Event(), list[str]()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    def waits() -> Work[str]:
        try:
            yield hang()
        finally:
            closed.append(read_current())
        return ""

    span = Noted()
    begun = begin_in_span(span, waits())
    assert not isinstance(begun, Done)
    task = asyncio.create_task(begun)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(closed) == 1
    assert len(span.ends) == 1
