"""Paths are resolved with objects that the administrators of a workspace cannot write."""

import pytest

from fleethook.engines.dispatch.owner.workspace_paths import ResolvedPath, resolve, resolve_cluster
from tests.engines.dispatch.builders import in_cluster, logical_cluster, store_of, workspace

SPACES = (workspace("root", "org", "1abc"), workspace("1abc", "ws", "2hf3"), workspace("root", "ws2", "9zzz"))
TREE = (
    *SPACES,
    logical_cluster("root"),
    logical_cluster("2hf3", parent="1abc", workspace="ws"),
    logical_cluster("9zzz", parent="root", workspace="ws2"),
)


def test_a_path_is_followed_through_the_workspaces() -> None:
    store = store_of(*TREE)
    assert resolve_cluster(store, "root:org:ws") == "2hf3"
    assert resolve_cluster(store, "root:org") == "1abc"
    assert resolve_cluster(store, "1abc:ws") == "2hf3"


@pytest.mark.parametrize("name", ["2hf3", "root", "system:admin", "", "nosuch"])
def test_names_are_returned_unchanged(name: str) -> None:
    assert resolve(store_of(*TREE), name) == ResolvedPath(name)


def test_unknown_paths_name_their_first_unknown_workspace() -> None:
    found = resolve(store_of(*TREE), "root:nosuch:ws")
    assert found == ResolvedPath(
        "root:nosuch:ws", "root:nosuch:ws: Workspace nosuch of logical cluster root is unknown"
    )


def test_a_workspace_without_a_cluster_is_not_scheduled_yet() -> None:
    store = store_of(in_cluster("root", "tenancy.kcp.io/v1alpha1", "Workspace", "new", spec={}))
    assert resolve(store, "root:new").problem == "root:new: Workspace new of logical cluster root is not scheduled yet"


@pytest.mark.parametrize("first", [True, False])
def test_the_path_annotation_of_a_tenant_is_ignored(first: bool) -> None:
    """An administrator of ws2 claims the path of another workspace, before or after it exists."""
    claim = logical_cluster("9zzz", parent="root", workspace="ws2")
    claim["metadata"]["annotations"]["kcp.io/path"] = "root:org:ws"
    objects = (claim, *SPACES) if first else (*TREE, claim)
    store = store_of(*objects)
    assert resolve_cluster(store, "root:org:ws") == "2hf3"
    store.put(logical_cluster("9zzz", parent="root", workspace="ws2"))
    assert resolve_cluster(store, "root:org:ws") == "2hf3"
    assert resolve_cluster(store_of(claim), "root:org:ws") == "root:org:ws"


@pytest.mark.parametrize("claim", [{"cluster": "root", "name": "org"}, {}])
def test_the_owner_in_a_logical_cluster_is_ignored(claim: dict[str, str]) -> None:
    """An administrator of a workspace can write spec.owner, but only kcp writes spec.cluster of a Workspace."""
    store = store_of(*SPACES, logical_cluster("2hf3", parent=claim.get("cluster", ""), workspace=claim.get("name", "")))
    assert resolve_cluster(store, "root:org:ws") == "2hf3"


def test_a_path_below_a_cluster_of_another_shard_says_so() -> None:
    store = store_of(logical_cluster("9zzz"), workspace("9zzz", "mine", "2hf3"))
    assert resolve(store, "root:team").problem == (
        "root:team: logical cluster root is unknown (it may be on another shard of the kcp; give the kubeconfig "
        "of its shard, and a logical cluster of that shard by its name instead of its path)"
    )
    assert resolve_cluster(store, "9zzz:mine") == "2hf3"


@pytest.mark.parametrize(("names", "followed"), [(63, True), (64, False)])
def test_very_long_paths_are_not_followed(names: int, followed: bool) -> None:
    store = store_of(workspace("a", "x", "a"))
    found = resolve(store, ":".join(["a", *["x"] * names]))
    assert (found == ResolvedPath("a")) is followed
    assert ("paths of more than 64 names are not followed" in found.problem) is not followed
