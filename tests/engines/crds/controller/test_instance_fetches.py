"""Fetches on threads: callers that share one, errors, cancellation, and spans."""

import asyncio
import base64
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched, fetch
from fleethook.engines.crds.controller.instance_fetches import (
    FetchOptions,
    Reach,
    SharedCall,
    SingleFlight,
    build_downloader,
)
from fleethook.engines.crds.instance.source_and_secrets import select_source
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.json import JSONObject
from fleethook.tracing.spans_and_otel_variables import CURRENT
from fleethook.work.threads_and_gc import DaemonThreads
from tests.engines.crds.controller.test_karmada_controller import Api, Bench
from tests.engines.crds.origin import Asked, Connection, Origin, says, serving, tarball
from tests.engines.crds.tarballs import build, small
from tests.tracing.test_spans_and_otel_variables import Noted
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
    waiting = [asyncio.create_task(flights.join("a", work).wait(never)) for _ in range(10)]
    other = flights.join("b", lambda _: 8)
    assert await other.wait(never) == 8
    go.set()
    assert await asyncio.gather(*waiting) == [7] * 10
    assert len(begun) == 1
    assert begun[0].daemon
    # A finished call is forgotten: a later caller starts a new one.
    assert await flights.join("a", lambda _: 9).wait(never) == 9


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
    assert await asyncio.gather(*(flights.join("a", work).wait(asked) for _ in range(3))) == [7] * 3
    assert len(told) == 3


async def test_a_defect_is_a_failure_with_a_name_and_not_a_worker_that_hangs() -> None:
    def work(_: SharedCall[int]) -> int:
        raise ZeroDivisionError("by zero")

    with pytest.raises(CRDsError, match="ZeroDivisionError: by zero") as caught:
        await SharedCall(work, DaemonThreads(1, "crds")).wait(never)
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

    flight = SharedCall(work, DaemonThreads(1, "crds"))
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
def small_origin() -> Iterator[Origin]:
    with serving(tarball(build(small()))) as running:
        yield running


def bench(url: str, cache: Cache, started: list[Noted]) -> Bench:
    def trace(name: str) -> Noted:
        started.append(Noted(name))
        return started[-1]

    spec = {"crdTarball": {"crdDownloadPolicy": "Always", "httpSource": {"url": url, "timeoutSeconds": 300}}}
    return Bench(Api(spec), cache, FetchOptions(env_proxies=False), trace=trace)


async def test_a_fetch_and_its_downloads_have_spans(small_origin: Origin, tmp_path: Path) -> None:
    started: list[Noted] = []
    assert await bench(small_origin.url, Cache(tmp_path), started).look()
    (fetch,) = started
    assert (fetch.name, fetch.ends, CURRENT.get()) == ("fetch CRDs", [""], None)
    assert (fetch.attributes["fleethook.outcome"], fetch.attributes["fleethook.policy"]) == ("downloaded", "Always")
    (download,) = fetch.children
    assert (download.name, download.ends) == ("download", [""])
    assert download.attributes == {"url.full": small_origin.url, "fleethook.attempt": 1}


URL = "https://h/crds.tar.gz"


BODY = build(small())
ANYTHING = Reach()
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "data")


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(BODY)) as running:
        yield running


class Objects:
    """Those beside an instance, and which of them were read."""

    def __init__(self, **objects: JSONObject) -> None:
        self.objects, self.read = objects, list[str]()

    def __call__(self, name: str) -> JSONObject | None:
        self.read.append(name)
        return self.objects.get(name)


def bring(
    cache: Cache,
    crd_tarball: dict[str, Any],
    *,
    secrets: Objects | None = None,
    reach: Reach = ANYTHING,
) -> tuple[Fetched, int]:
    karmada = {"metadata": {"namespace": "ns"}, "spec": {"crdTarball": crd_tarball}}
    chosen = select_source(karmada, version="v1.18.0")
    begun: list[bool] = []
    downloader = build_downloader(chosen, secrets or Objects(), reach, starting=lambda: begun.append(True))
    return fetch(cache, chosen.source, chosen.policy, env_proxies=False, downloader=downloader), len(begun)


def failure(cache: Cache, crd_tarball: dict[str, Any], **more: Any) -> CRDsError:
    with pytest.raises(CRDsError) as caught:
        bring(cache, crd_tarball, **more)
    return caught.value


def encoded(**members: bytes) -> dict[str, str]:
    return {name.replace("_", "."): base64.b64encode(value).decode() for name, value in members.items()}


def test_starting_is_called_for_a_request_and_not_for_a_cached_tarball(cache: Cache, origin: Origin) -> None:
    wanted = {"httpSource": {"url": origin.url}}
    fetched, begun = bring(cache, wanted)
    assert (fetched.result, begun) == ("downloaded", 1)
    fetched, begun = bring(cache, wanted)
    assert (fetched.result, begun) == ("cached", 0)


# --- Secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_are_read_only_when_the_origin_is_asked(cache: Cache, origin: Origin) -> None:
    good = tarball(BODY)

    def guarded(asked: Asked, connection: Connection) -> None:
        allowed = asked.headers.get("authorization") == "Bearer t0ken"
        (good if allowed else says(status="401 Unauthorized"))(asked, connection)

    origin.answer = guarded
    secrets = Objects(mirror={"data": encoded(token=b"t0ken")})
    wanted = {"httpSource": {"url": origin.url, "secretRef": {"name": "mirror"}}}
    assert bring(cache, wanted, secrets=secrets)[0].result == "downloaded"
    assert secrets.read == ["mirror"]
    # As with images, a cached tarball needs no credentials.
    assert bring(cache, wanted, secrets=Objects())[0].result == "cached"


def test_a_secret_that_is_not_there_may_come(cache: Cache, origin: Origin) -> None:
    error = failure(cache, {"httpSource": {"url": origin.url, "secretRef": {"name": "mirror"}}})
    assert (error.exit, error.transient) == (Exit.USAGE, True)
    assert str(error) == "there is no Secret mirror"
    assert origin.asked == []


@pytest.mark.parametrize("data", [None, 7, {}, {"token": "not base64!"}, {"token": 7}, {"token": None}, {"other": ""}])
def test_a_useless_secret_is_refused_without_its_content(cache: Cache, origin: Origin, data: Any) -> None:
    wanted = {"httpSource": {"url": origin.url, "secretRef": {"name": "mirror"}}}
    error = failure(cache, wanted, secrets=Objects(mirror={"data": data}))
    assert (error.exit, error.transient) == (Exit.USAGE, False)
    assert str(error).startswith("the Secret mirror has n")
    assert "base64" not in str(error)


# --- Local ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    directory = tmp_path / "tarballs"
    directory.mkdir()
    (directory / "crds.tar.gz").write_bytes(BODY)
    return directory


def local(path: Path) -> dict[str, Any]:
    return {"localSource": {"path": str(path)}}


def test_a_file_below_the_local_root_is_copied(cache: Cache, allowed: Path) -> None:
    fetched, begun = bring(cache, local(allowed / "crds.tar.gz"), reach=Reach(local=allowed))
    assert (fetched.result, fetched.sha256, begun) == ("downloaded", SHA, 1)


def test_without_a_directory_no_file_may_be_named(cache: Cache, allowed: Path) -> None:
    error = failure(cache, local(allowed / "crds.tar.gz"))
    assert error.exit is Exit.USAGE
    assert "the controller has no directory of local tarballs" in str(error)


def test_neither_a_path_nor_a_link_leads_out_of_the_directory(cache: Cache, allowed: Path, tmp_path: Path) -> None:
    (tmp_path / "private").write_bytes(BODY)
    (allowed / "link").symlink_to(tmp_path / "private")
    (tmp_path / "tarballs-of-others").mkdir()
    (tmp_path / "tarballs-of-others" / "crds.tar.gz").write_bytes(BODY)
    for path in (tmp_path / "private", allowed / "link", tmp_path / "tarballs-of-others" / "crds.tar.gz"):
        error = failure(cache, local(path), reach=Reach(local=allowed))
        assert error.exit is Exit.USAGE
        assert f"{path} is not below the directory of local tarballs (--local-root {allowed}" in str(error)


def test_a_missing_or_irregular_local_file_is_reported(cache: Cache, allowed: Path) -> None:
    error = failure(cache, local(allowed / "later.tar.gz"), reach=Reach(local=allowed))
    assert (error.exit, error.transient) == (Exit.USAGE, True)
    assert failure(cache, local(allowed), reach=Reach(local=allowed)).exit is Exit.DISK
    os.mkfifo(allowed / "pipe")
    # The pipe has no writer, and the open does not wait for one.
    assert failure(cache, local(allowed / "pipe"), reach=Reach(local=allowed)).exit is Exit.DISK


def test_a_file_that_is_too_large_is_not_copied(cache: Cache, allowed: Path) -> None:
    with (allowed / "large").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    error = failure(cache, local(allowed / "large"), reach=Reach(local=allowed))
    assert error.exit is Exit.LIMIT
    assert str(error).startswith(f"file://{allowed}/large: larger than the limit")


# --- Allowed hosts -----------------------------------------------------------------------------------------------------


def test_the_reach_holds_for_downloads(cache: Cache, origin: Origin) -> None:
    wanted = {"httpSource": {"url": origin.url}}
    assert failure(cache, wanted, reach=Reach(private=False)).exit is not Exit.OK
    assert failure(cache, wanted, reach=Reach(hosts=("mirror.example.com",))).exit is not Exit.OK
    assert origin.asked == []
    assert bring(cache, wanted, reach=Reach(hosts=("127.0.0.1",)))[0].result == "downloaded"
