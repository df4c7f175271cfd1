"""Fetches on threads: callers that share one, errors, cancellation, and spans."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.fetcher import FetchOptions, SharedCall, SingleFlight
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.tracing.spans import CURRENT
from tests.engines.crds.controller.test_karmada_controller import Api, Bench
from tests.engines.crds.origin import Origin, serving, tarball
from tests.engines.crds.tarballs import build, small
from tests.tracing.test_spans import Noted
from tests.waiting import NET


async def never() -> None:
    raise AssertionError("the origin was not asked")


async def test_callers_with_the_same_key_share_a_call() -> None:
    begun, go = [], threading.Event()

    def work(_: SharedCall[int]) -> int:
        begun.append(threading.current_thread())
        go.wait(NET)
        return 7

    flights: SingleFlight[int] = SingleFlight()
    waiting = [asyncio.create_task(flights.join("a", work, name="a").wait(never)) for _ in range(10)]
    other = flights.join("b", lambda _: 8, name="b")
    assert await other.wait(never) == 8
    go.set()
    assert await asyncio.gather(*waiting) == [7] * 10
    assert len(begun) == 1
    assert begun[0].daemon
    # A finished call is forgotten: a later caller starts a new one.
    assert await flights.join("a", lambda _: 9, name="a").wait(never) == 9


async def test_all_waiters_learn_of_the_request_to_the_origin() -> None:
    go, told = threading.Event(), []

    def work(flight: SharedCall[int]) -> int:
        flight.starting()
        go.wait(NET)
        return 7

    async def asked() -> None:
        told.append(True)
        if len(told) == 3:
            go.set()

    flights: SingleFlight[int] = SingleFlight()
    assert await asyncio.gather(*(flights.join("a", work, name="a").wait(asked) for _ in range(3))) == [7] * 3
    assert len(told) == 3


async def test_a_defect_is_a_failure_with_a_name_and_not_a_worker_that_hangs() -> None:
    def work(_: SharedCall[int]) -> int:
        raise ZeroDivisionError("by zero")

    with pytest.raises(CRDsError, match="ZeroDivisionError: by zero") as caught:
        await SharedCall(work, name="a").wait(never)
    assert caught.value.exit is Exit.INTERNAL


async def test_a_cancelled_waiter_does_not_affect_the_others() -> None:
    go = threading.Event()

    def work(flight: SharedCall[int]) -> int:
        flight.starting()
        go.wait(NET)
        return 7

    told = [asyncio.Event(), asyncio.Event()]

    async def asked(number: int) -> None:
        told[number].set()

    flight = SharedCall(work, name="a")
    waiting = [asyncio.create_task(flight.wait(lambda number=number: asked(number))) for number in range(2)]
    for event in told:
        await event.wait()
    await asyncio.sleep(0)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    go.set()
    assert await waiting[1] == 7


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(build(small()))) as running:
        yield running


def bench(url: str, cache: Cache, started: list[Noted]) -> Bench:
    def trace(name: str) -> Noted:
        started.append(Noted(name))
        return started[-1]

    spec = {"crdTarball": {"crdDownloadPolicy": "Always", "httpSource": {"url": url, "timeoutSeconds": 300}}}
    return Bench(Api(spec), cache, FetchOptions(env_proxies=False), trace=trace)


async def test_a_fetch_and_its_downloads_have_spans(origin: Origin, tmp_path: Path) -> None:
    started: list[Noted] = []
    assert await bench(origin.url, Cache(tmp_path), started).look()
    (fetch,) = started
    assert (fetch.name, fetch.ends, CURRENT.get()) == ("fetch CRDs", [""], None)
    assert (fetch.attributes["fleethook.outcome"], fetch.attributes["fleethook.policy"]) == ("downloaded", "Always")
    (download,) = fetch.children
    assert (download.name, download.ends) == ("download", [""])
    assert download.attributes == {"url.full": origin.url, "fleethook.attempt": 1}
