"""The cache, compared with the Go operator's: keys, and results for existing content under each policy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache.tarball_cache import Origin as CacheOrigin
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError
from fleethook.model.crd_tarball import Policy
from tests.engines.crds.fetching import bring
from tests.engines.crds.origin import hangs_up, says, serving, tarball
from tests.engines.crds.tarballs import build, small

CASES = yaml.safe_load((Path(__file__).parent / "crds_cache.yaml").read_text())
WHOLE = build(small())
SERVERS = {"whole": tarball(WHOLE), "down": hangs_up, 404: says(status="404 Not Found")}


def by_id(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


@by_id(CASES["keys"])
def test_a_key(case: dict[str, str], tmp_path: Path) -> None:
    assert TarballSource(case["url"]).key == case["key"]
    assert TarballSource(f" {case['url']}\n").key == case["key"]
    assert Cache(Path("/var/lib/karmada")).path(case["key"]) == Path("/var/lib/karmada/cache") / case["key"]


def lay(cache: Cache, url: str, there: dict[str, Any], elsewhere: Path) -> None:
    """Write the initial content of the cache."""
    path = cache.path(TarballSource(url).key)
    if "entry" in there:
        with cache.staging() as staged:
            (staged / TARBALL).write_bytes(WHOLE)
            cache.commit(path.name, staged, CacheOrigin(url, url))
        return
    if "link" in there:
        elsewhere.mkdir()
        cache.directory.mkdir(parents=True)
        path.symlink_to(elsewhere)
        return
    path.mkdir(parents=True)
    if "tarball" in there:
        (path / TARBALL).write_bytes(WHOLE)
    for name, text in there.get("files", {}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)


@by_id(CASES["flows"])
def test_a_flow(case: dict[str, Any], tmp_path: Path) -> None:
    cache = Cache(tmp_path / "data")
    with serving(SERVERS[case["server"]]) as origin:
        lay(cache, origin.url, case["there"], tmp_path / "elsewhere")
        source = TarballSource(origin.url, sha256=case.get("pinned", ""))
        try:
            said = bring(
                cache, source, Policy(case["policy"]), stale_if_error=case.get("stale_if_error", False)
            ).result  # fmt: skip
        except CRDsError as error:
            said = error.exit.name
        assert (said, len(origin.asked)) == (case["ours"], case["asks"])
    if case.get("kept") or case["ours"] == "downloaded":
        assert cache.entry(source.key) is not None
