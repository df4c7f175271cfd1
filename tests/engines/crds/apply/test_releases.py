"""Releases of cache entries, and their comparison."""

from pathlib import Path

import pytest

from fleethook.engines.crds.apply.releases import compare_releases, parse_entry
from fleethook.engines.crds.cache.cache import Cache
from fleethook.engines.crds.crds_errors import CRDsError
from tests.engines.crds.fetching import fetching
from tests.engines.crds.tarballs import build, dotted, small


def test_an_entry_with_dotted_names_is_parsed_as_it_was_unpacked(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with fetching(cache, dotted(), normalize_dot=True) as fetched:
        found = cache.tarball(fetched.key)
    assert found is not None
    assert list(parse_entry(*found).crds) == ["works.work.karmada.io"]


def test_a_patch_that_differs_is_a_change_of_its_crd(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = "crds/patches/webhook_in_works.yaml"
    changed = (small()[path] or b"").replace(b"/convert", b"/other")
    with fetching(cache, build(small())) as before, fetching(cache, build({**small(), path: changed})) as after:
        trees = [parse_entry(*found) for one in (before, after) if (found := cache.tarball(one.key))]
    assert compare_releases(trees[0], trees[0]) == []
    (change,) = compare_releases(*trees)
    assert (change.name, change.change, change.fields) == ("works.work.karmada.io", "changed", ("conversion",))


def test_a_patch_that_cannot_be_merged_is_an_error(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with fetching(cache, build({**small(), "crds/patches/webhook_in_works.yaml": b"{{other}}"})) as fetched:
        found = cache.tarball(fetched.key)
    assert found is not None
    tree = parse_entry(*found)
    with pytest.raises(CRDsError, match="webhook_in_works"):
        compare_releases(tree, tree)
