"""Fetching from an origin on loopback, without waiting between attempts."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched, fetch
from fleethook.engines.crds.download.download_and_mirrors import download
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.model.crd_tarball import Policy
from tests.engines.crds.origin import serving, tarball

ALWAYS, IF_NOT_PRESENT, NEVER = Policy.ALWAYS, Policy.IF_NOT_PRESENT, Policy.NEVER


def bring(cache: Cache, source: TarballSource | str, policy: Policy = IF_NOT_PRESENT, **more: object) -> Fetched:
    source = TarballSource(source) if isinstance(source, str) else source
    at_once = partial(download, sleep=lambda _: None)
    return fetch(cache, source, policy, **{"env_proxies": False, "downloader": at_once, **more})


@contextmanager
def fetching(cache: Cache, body: bytes, **options: Any) -> Iterator[Fetched]:
    """Fetch one tarball; its origin serves until the end of the block, so that no other one has its URL."""
    with serving(tarball(body)) as origin:
        yield bring(cache, origin.url, **options)
