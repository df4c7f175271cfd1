"""Paths are resolved with objects that the administrators of a workspace cannot write."""

from typing import Any

import pytest

from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import (
    MAX_UNBOUND,
    OwnerStatus,
    ResolvedPath,
    find_owner,
    resolve,
    resolve_cluster,
)
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    definition,
    export,
    in_cluster,
    logical_cluster,
    store_of,
    webhook,
    workspace,
)

SPACES = (workspace("root", "org", "1abc"), workspace("1abc", "ws", "2hf3"), workspace("root", "ws2", "9zzz"))
TREE = (
    *SPACES,
    logical_cluster("root"),
    logical_cluster("2hf3", parent="1abc", workspace="ws"),
    logical_cluster("9zzz", parent="root", workspace="ws2"),
)


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


WIDGETS = "widgets.example.org"


def find(
    *documents: Any, cluster: Any = "ws3", group: Any = "example.org", resource: Any = "widgets", as_kcp: Any = False
) -> Any:
    return find_owner(store_of(*documents), cluster=cluster, group=group, resource=resource, as_kcp=as_kcp)


def test_resources_without_a_binding_are_local() -> None:
    found = find(binding("ws3", "ws1", "gadgets.example.org"))
    assert (found.status, found.cluster, found.problem) == (OwnerStatus.LOCAL, "ws3", "")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["default"], "no APIBinding lists widgets.example.io: it is local"),
        ([], "the store has no objects of the cluster, so no webhooks"),
    ],
)
def test_a_plain_cluster_has_no_name(names: list[str], reason: str) -> None:
    store = store_of(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))
    found = find_owner(store, cluster="", group="example.io", resource="widgets", cluster_exists=True)
    assert found.trace == (reason,)


def test_bound_resources_are_owned_by_the_cluster_of_the_export() -> None:
    found = find(binding("ws3", "ws1", WIDGETS), export("ws1", WIDGETS))
    assert (found.status, found.cluster, found.problem) == (OwnerStatus.BOUND, "ws1", "")
    assert (found.binding, found.export, found.schema) == ("widgets", "widgets", ("ws1", "v1.widgets.example.org"))
    assert found.trace == (
        "APIBinding widgets of ws3 (Bound) lists widgets.example.org",
        "it binds APIExport widgets of ws1 (root:ws1), which owns the schema",
    )


def test_two_bindings_to_one_cluster_do_not_conflict() -> None:
    found = find(binding("ws3", "ws1", WIDGETS, name="a"), binding("ws3", "ws1", WIDGETS, name="b"), export("ws1"))
    assert (found.status, found.cluster) == (OwnerStatus.BOUND, "ws1")


AMBIGUOUS = (
    binding("ws3", "ws1", WIDGETS, name="a"), binding("ws3", "ws2", WIDGETS, name="b"), export("ws1"), export("ws2"),
)  # fmt: skip
UNBOUND = (binding("ws3", "ws1", phase="Binding"), export("ws1", WIDGETS))


@pytest.mark.parametrize(
    ("documents", "case", "problem", "in_kcp"),
    [
        pytest.param(
            AMBIGUOUS, OwnerStatus.AMBIGUOUS,
            "several APIBindings of ws3 list widgets.example.org: a (of ws1), b (of ws2); remove all but one", "ws1",
            id="ambiguous",
        ),
        pytest.param(
            (binding("ws3", "", WIDGETS),), OwnerStatus.NAMELESS,
            "APIBinding widgets of ws3 does not name the cluster of its APIExport (apiExportClusterName)", "",
            id="nameless",
        ),
        pytest.param(
            (binding("ws3", "ws1", WIDGETS),), OwnerStatus.UNKNOWN,
            "logical cluster ws1 of the APIExport of APIBinding widgets of ws3 is unknown", "ws1", id="unknown",
        ),
        pytest.param(
            UNBOUND, OwnerStatus.UNBOUND,
            "APIBinding widgets of ws3 will list widgets.example.org, but is not bound yet; try again", "ws3",
            id="unbound",
        ),
    ],
)  # fmt: skip
def test_undecidable_owners_are_refused_unless_as_kcp(documents: Any, case: Any, problem: Any, in_kcp: Any) -> None:
    found = find(*documents)
    assert (found.status, found.cluster, found.problem) == (case, None, problem)
    assert find(*documents, as_kcp=True).cluster == in_kcp


def test_a_missing_export_keeps_the_owner_with_a_warning() -> None:
    hooks = configuration("ws1", "validating", webhook())
    found = find(binding("ws3", "ws1", WIDGETS), hooks)
    assert (found.status, found.cluster) == (OwnerStatus.DANGLING, "ws1")
    assert found.problem == "APIExport widgets of ws1 is gone; the webhooks of ws1 are still called"


def test_local_definitions_take_precedence_over_unbound_bindings() -> None:
    found = find(*UNBOUND, definition("ws3", WIDGETS, "v1"))
    assert (found.status, found.cluster) == (OwnerStatus.LOCAL, "ws3")


def test_exports_of_v1alpha1_name_schemas() -> None:
    made = export("ws1")
    made["spec"] = {"latestResourceSchemas": ["today.widgets.example.org", "today.pods.core", 7, "x"]}
    assert find(binding("ws3", "ws1", phase="Binding"), made).status is OwnerStatus.UNBOUND
    assert find(binding("ws3", "ws1", phase="Binding"), made, group="", resource="pods").status is OwnerStatus.UNBOUND


def test_the_export_of_a_binding_without_a_cluster_is_found_by_its_path() -> None:
    made = binding("ws3", "", phase="Binding")
    made["spec"]["reference"]["export"]["path"] = "root:org:provider"
    spaces = (workspace("root", "org", "1abc"), workspace("1abc", "provider", "2hf3"))
    assert find(made, *spaces, export("2hf3", WIDGETS)).status is OwnerStatus.UNBOUND


def test_members_of_a_wrong_type_are_ignored() -> None:
    made = binding("ws3", "ws1")
    made["status"] = {"boundResources": [None, {"group": 1}, {"schema": "x"}], "apiExportClusterName": 3}
    assert find(made).status is OwnerStatus.LOCAL


def test_unknown_clusters_have_no_owner() -> None:
    found = find_owner(store_of(), cluster="nosuch", group="example.org", resource="widgets")
    assert (found.status, found.cluster) == (OwnerStatus.UNKNOWN, None)
    assert found.problem == "logical cluster nosuch is unknown, so the owner of the schema is unknown"
    allowing = find_owner(store_of(), cluster="nosuch", group="example.org", resource="widgets", as_kcp=True)
    assert (allowing.status, allowing.cluster) == (OwnerStatus.LOCAL, "nosuch")


def test_unknown_paths_have_no_owner() -> None:
    store = store_of(workspace("root", "org", "1abc"))
    found = find_owner(store, cluster="root:typo", group="example.org", resource="widgets")
    assert (found.status, found.cluster) == (OwnerStatus.UNKNOWN, None)
    assert found.problem.startswith("root:typo: Workspace typo of logical cluster root is unknown, so the owner")


def test_too_many_unbound_bindings_refuse_unbound_resources() -> None:
    unbound = [binding("ws3", "ws1", name=f"b{number}", phase="Binding") for number in range(MAX_UNBOUND + 1)]
    store = store_of(export("ws1", WIDGETS), logical_cluster("ws3"), *unbound)
    found = find_owner(store, cluster="ws3", group="", resource="configmaps")
    assert (found.status, found.cluster) == (OwnerStatus.UNBOUND, None)
    assert "ws3 has 1001 APIBindings that are not bound yet (limit 1000)" in found.problem
    assert find_owner(store, cluster="ws3", group="", resource="configmaps", as_kcp=True).cluster == "ws3"
    store.remove(key_of(unbound[0]))
    assert find_owner(store, cluster="ws3", group="", resource="configmaps").cluster == "ws3"
