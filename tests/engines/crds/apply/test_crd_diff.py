"""The difference between two states of CRDs."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.crds.apply.crd_diff import CRDChange, VersionChange, compare, compare_releases
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.crds_errors import CRDsError
from tests.engines.crds.fetching import fetching
from tests.engines.crds.tarballs import build, dotted, small

NAME = "works.work.karmada.io"


def made(*versions: str, stored: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": NAME, "resourceVersion": str(len(versions))},
        "spec": {
            "group": "work.karmada.io", "versions": [{"name": one, "served": True, "schema": {}} for one in versions], **spec,
        },
        "status": {"storedVersions": list(stored)},
    }  # fmt: skip


def only(before: Any, after: Any) -> CRDChange:
    (change,) = compare({NAME: before}, {NAME: after})
    return change


def test_changes_of_status_and_metadata_are_not_differences() -> None:
    assert compare({NAME: made("v1", stored=("v1",))}, {NAME: made("v1")}) == []


def test_crds_come_and_go() -> None:
    assert compare({}, {NAME: made("v1")}) == [CRDChange(NAME, "added", (VersionChange("v1", "added"),))]
    assert compare({NAME: made("v1", stored=("v1",))}, {}) == [CRDChange(NAME, "removed")]


def test_versions_come_go_and_change() -> None:
    after = made("v1", "v2")
    after["spec"]["versions"][0]["schema"] = {"a": 1}
    change = only(made("v1beta1", "v1"), after)
    assert change.versions == (
        VersionChange("v1beta1", "removed"),
        VersionChange("v1", "changed", ("schema",)),
        VersionChange("v2", "added"),
    )
    assert change.lost == ()


def test_a_stored_version_that_goes_is_lost() -> None:
    change = only(made("v1beta1", "v1", stored=("v1beta1", "v1")), made("v1"))
    assert change.lost == ("v1beta1",)
    assert list(change.format_lines()) == [
        f"changed  {NAME}",
        "  version v1beta1 removed",
        "  objects may be stored in v1beta1, which would be lost",
    ]


def test_other_members_of_the_spec_are_named() -> None:
    change = only(made("v1", scope="Cluster"), made("v1", conversion={}))
    assert (change.versions, change.fields) == ((), ("conversion", "scope"))


@given(
    st.lists(st.sampled_from(["v1", "v2", "v3"]), unique=True),
    st.lists(st.sampled_from(["v1", "v2", "v3"]), unique=True),
)
def test_a_difference_is_one_in_both_directions(one: list[str], other: list[str]) -> None:
    before, after = made(*one), made(*other)
    forth, back = compare({NAME: before}, {NAME: after}), compare({NAME: after}, {NAME: before})
    assert bool(forth) == bool(back) == (set(one) != set(other))
    assert compare({NAME: before}, {NAME: copy.deepcopy(before)}) == []


def test_an_entry_with_dotted_names_is_parsed_as_it_was_unpacked(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with fetching(cache, dotted(), normalize_dot=True) as fetched:
        found = cache.tarball(fetched.key)
    assert found is not None
    _, tree = archive.read_tree(found[1], normalize_dot=found[0].record.normalize_dot)
    assert list(tree.crds) == ["works.work.karmada.io"]


def test_a_patch_that_differs_is_a_change_of_its_crd() -> None:
    path = "crds/patches/webhook_in_works.yaml"
    changed = (small()[path] or b"").replace(b"/convert", b"/other")
    trees = [archive.read_tree(build(files))[1] for files in (small(), {**small(), path: changed})]
    assert compare_releases(trees[0], trees[0]) == []
    (change,) = compare_releases(*trees)
    assert (change.name, change.change, change.fields) == ("works.work.karmada.io", "changed", ("conversion",))


def test_a_patch_that_cannot_be_merged_is_an_error() -> None:
    _, tree = archive.read_tree(build({**small(), "crds/patches/webhook_in_works.yaml": b"{{other}}"}))
    with pytest.raises(CRDsError, match="webhook_in_works"):
        compare_releases(tree, tree)
