"""Fetching from an origin on loopback, without waiting between attempts."""

from functools import partial

from app.crds.cache.cache import Cache
from app.crds.download.download import Timing, download
from app.crds.fetch import Fetched, fetch
from app.crds.source import Policy, Source

ALWAYS, IF_NOT_PRESENT, NEVER = Policy.ALWAYS, Policy.IF_NOT_PRESENT, Policy.NEVER


def bring(cache: Cache, source: Source | str, policy: Policy = IF_NOT_PRESENT, **more: object) -> Fetched:
    source = Source(source) if isinstance(source, str) else source
    at_once = partial(download, timing=Timing(sleep=lambda _: None))
    return fetch(cache, source, policy, **{"env_proxies": False, "lock_seconds": 30, "downloader": at_once, **more})
