"""The dispatch engine in a server: the kinds that it follows, and the reasons to refuse dispatching."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.registration import paths
from fleethook.engines.dispatch.dispatch_server import dispatch_routes, list_resources
from fleethook.engines.dispatch.review.cluster_endpoint import DispatchContext
from fleethook.settings import Settings
from tests.server.reviews.asking_routes import ask, review


async def test_observing_admits_what_no_other_route_would() -> None:
    routes = {route.path: route for route in dispatch_routes(cast("DispatchContext", None))}
    for document in (None, "text", {"kind": 1}):
        response = await ask(routes[paths.OBSERVE], review(document, {"group": "a", "version": "b", "kind": "C"}))
        assert response == {"uid": "u-1", "allowed": True}


def create(**settings: Any) -> Fleethook:
    return create_app(Settings(engines=frozenset({"dispatch"}), **settings), log=None)


def test_workspaces_are_needed_in_a_kcp_only() -> None:
    kubeconfig = Path("k")
    assert [one.name for one in list_resources(Settings(kubeconfig=kubeconfig)).advisory] == [
        "workspaces.tenancy.kcp.io"
    ]
    followed = list_resources(Settings(kubeconfig=kubeconfig, kcp=True))
    assert followed.advisory == ()
    assert "workspaces.tenancy.kcp.io" in [one.name for one in followed.needed]


def test_a_server_of_a_cluster_waits_for_the_objects_and_one_without_does_not() -> None:
    assert create().engines["dispatch"].synced.is_set()
    assert not create(kubeconfig=Path("k")).engines["dispatch"].synced.is_set()


def test_a_kcp_of_which_one_shard_is_read_has_a_check() -> None:
    checks = create(kubeconfig=Path("k"), kcp=True).engines["dispatch"].checks()
    assert ["kcp_cache_kubeconfig" in check.detail for check in checks] == [True]


@pytest.mark.parametrize(
    ("age", "as_kcp", "refused"), [(100.0, False, False), (200.0, False, True), (200.0, True, False)]
)
def test_outdated_bindings_are_a_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch, *, age: float, as_kcp: bool, refused: bool
) -> None:
    app = create(kubeconfig=Path("k"), dispatch_as_kcp=as_kcp)
    assert app.cluster is not None

    def parts() -> Iterator[PartState]:
        yield PartState("apibindings.apis.kcp.io", True, "", age, failing=False)
        yield PartState("nodepools.apps.openyurt.io", True, "", 999.0, failing=False)

    monkeypatch.setattr(app.cluster.source, "parts", parts)
    monkeypatch.setattr(type(app.cluster.source), "finds_nothing", False)
    stale = app.engines["dispatch"]._find_stale()
    assert stale == ("no update of apibindings.apis.kcp.io from the apiserver for 200 s" if refused else "")
