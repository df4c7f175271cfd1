"""A cache of CRD tarballs on disk with two releases, which an origin on loopback served."""

from pathlib import Path
from typing import Any, NamedTuple

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched
from tests.engines.crds.fetching import fetching
from tests.engines.crds.tarballs import build, members, small

CHANGED = "crds/bases/work/work.karmada.io_works.yaml"
SMALL, RELEASE = build(small()), build(members(properties=2))


class FilledCache(NamedTuple):
    """The cache, and its two entries."""

    cache: Cache
    small: Fetched
    release: Fetched


def fill_cache(root: Path) -> FilledCache:
    """Fetch two releases into the cache of a data directory."""
    cache = Cache(root)
    with fetching(cache, SMALL) as first, fetching(cache, RELEASE) as second:
        return FilledCache(cache, first, second)


def karmada(name: str = "one", *, url: str = "", sha256: str = "", **fields: Any) -> dict[str, Any]:
    """Return an instance; ``fields`` are further fields of its ``crdTarball``."""
    source = {"url": url or None, "sha256": sha256 or None}
    tarball_field = {**({"httpSource": source} if any(source.values()) else {}), **fields}
    return {
        "apiVersion": "operator.karmada.io/v1alpha1",
        "kind": "Karmada",
        "metadata": {"name": name, "namespace": "test"},
        "spec": {"crdTarball": tarball_field},
    }
