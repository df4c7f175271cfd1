"""Spans of fetches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache import Cache
from fleethook.engines.crds.controller.options import Options
from fleethook.tracing.spans import CURRENT
from tests.engines.crds.controller.test_controller import Api, Bench
from tests.engines.crds.origin import Origin, says, serving, tarball
from tests.engines.crds.tarballs import build, small
from tests.tracing.test_spans import Noted


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(build(small()))) as running:
        yield running


def bench(url: str, cache: Cache, started: list[Noted]) -> Bench:
    def trace(name: str) -> Noted:
        started.append(Noted(name))
        return started[-1]

    spec = {"crdTarball": {"crdDownloadPolicy": "Always", "httpSource": {"url": url, "timeoutSeconds": 300}}}
    return Bench(Api(spec), cache, Options(env_proxies=False), trace=trace)


async def test_a_fetch_and_its_downloads_have_spans(origin: Origin, tmp_path: Path) -> None:
    started: list[Noted] = []
    assert await bench(origin.url, Cache(tmp_path), started).look()
    (fetch,) = started
    assert (fetch.name, fetch.ends, CURRENT.get()) == ("fetch CRDs", [""], None)
    assert (fetch.attributes["fleethook.outcome"], fetch.attributes["fleethook.policy"]) == ("downloaded", "Always")
    (download,) = fetch.children
    assert (download.name, download.ends) == ("download", [""])
    assert download.attributes == {"url.full": origin.url, "fleethook.attempt": 1}


async def test_a_failed_fetch_fails_its_spans(tmp_path: Path) -> None:
    started: list[Noted] = []
    with serving(says(status="404 Not Found")) as origin:
        await bench(origin.url, Cache(tmp_path), started).look()
    (fetch,) = started
    (download,) = fetch.children
    assert len(fetch.ends) == len(download.ends) == 1
    assert "404" in fetch.ends[0]
    assert "404" in download.ends[0]
