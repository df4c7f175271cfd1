"""The overrider engine in a server: its checks and tasks by the settings."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleethook.app import create_app
from fleethook.cluster.registration import paths
from fleethook.cluster.store import Store
from fleethook.engines.overrider.overrider_server import (
    OverriderServer,
    lists_without_leader,
    overrider_routes,
)
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.server.engine_server import Leadership
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP
from fleethook.settings import Settings
from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.server.reviews.asking_routes import ask, begin, review

KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "tasks", "leads", "selects"),
    [
        ({}, [], False, False),
        ({"manifests": Path("m")}, [], False, False),
        ({**INSTALLED, "registration": "all"}, [], True, True),
        ({**INSTALLED, "controller": False}, ["selection"], False, True),
    ],
)
def test_the_settings_decide_about_tasks(
    given: dict[str, Any], tasks: list[str], *, leads: bool, selects: bool
) -> None:
    engine = create_app(Settings(**given), log=None).engines["overrider"]
    found = list(engine.tasks())
    for _, work in found:
        work.close()
    assert ([name for name, _ in found], engine.leads, engine.selects) == (tasks, leads, selects)


def test_a_server_without_objects_has_no_checks() -> None:
    engine = create_app(Settings(), log=None).engines["overrider"]
    assert list(engine.checks()) == []
    assert engine.conflicts is None


async def test_a_former_leader_keeps_the_counts_and_drops_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(kubeconfig=Path("k"), controller=True, kcp=True)
    leader = create_app(settings, log=None).engines["overrider"]
    assert isinstance(leader, OverriderServer)
    seen: list[Any] = []

    class Controller:
        queue = ("a", "b")
        reconciled = 1
        workloads = SimpleNamespace(client=SimpleNamespace(touched=2), failed=3)

        async def run(self) -> None:
            seen.append((leader.queue_length(), count(leader)))

    monkeypatch.setattr(leader, "_make_controller", lambda *_: Controller())
    assert (leader.queue_length(), count(leader)) == (0, (0, 0, 0))
    await leader.lead(Leadership(cast("Any", None), lambda: b"", None))
    assert seen == [(2, (1, 2, 3))]
    assert (leader.queue_length(), count(leader)) == (0, (1, 2, 3))


async def test_a_leader_without_a_controller_has_no_task() -> None:
    engine = create_app(Settings(kubeconfig=Path("k"), controller=False), log=None).engines["overrider"]
    await engine.lead(Leadership(cast("Any", None), lambda: b"", None))
    assert engine.queue_length() == 0


def count(leader: OverriderServer) -> tuple[int, ...]:
    """Return the counters: reconciled, touched, failed."""
    return tuple(int(family.samples[0].value) for one in leader.leader_collectors() for family in one.collect())


OVERRIDER = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppOverrider"}


def routes_of(store: Store, plans: PlanCache | None = None, **given: Any) -> dict[str, ReviewRoute]:
    made = overrider_routes(store, plans or PlanCache(), None, **given)
    return {route.path: route for route in made}


@pytest.fixture
def store() -> Store:
    made = Store([OVERRIDERS_BY_SUBJECT])
    for document in (yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:2.0")]))):
        made.put(document)
    return made


def test_the_routes_of_overriders_have_unique_paths_and_name_their_kinds(store: Store) -> None:
    routes = routes_of(store)
    assert len(routes) == len(overrider_routes(store, PlanCache(), None)) == 7
    needs = {path: {one.kind for one in route.needs} for path, route in routes.items() if route.needs}
    assert needs == {
        paths.VALIDATE_APP_SET: {"YurtAppOverrider"},
        paths.VALIDATE_APP_DAEMON: {"YurtAppOverrider", "NodePool"},
        paths.VALIDATE_APP_SET_V1BETA1: {"YurtAppOverrider", "NodePool"},
    }


async def test_a_workload_is_rendered_for_its_pool(store: Store) -> None:
    response = await ask(routes_of(store)[paths.MUTATE_DEPLOYMENT], review(workload()))
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"


async def test_a_small_review_with_a_compiled_plan_needs_no_waiting(store: Store) -> None:
    plans = PlanCache()
    subject, applied = yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
    plans.plan(YURT_APP_SET, subject, applied, kind="Deployment", pool="hangzhou", cluster="", store=store)
    route = routes_of(store, plans)[paths.MUTATE_DEPLOYMENT]
    assert isinstance(begin(route, review(workload())), Reply)
    large = workload()
    large["metadata"]["annotations"] = {"note": "x" * MAX_ON_LOOP}
    begun = begin(route, review(large))
    assert not isinstance(begun, Reply)
    assert (await begun).status == 200


@pytest.mark.parametrize("findings", [(), ("another webhook reverts changes",)])
async def test_each_written_overrider_gets_the_findings_about_the_cluster(
    store: Store, findings: Sequence[str]
) -> None:
    route = routes_of(store, findings=lambda: findings)[paths.VALIDATE_OVERRIDER]
    written = overrider(entry("*", items=[image("nginx", "nginx:3.0")]))
    response = await ask(route, review(written, OVERRIDER))
    assert response["allowed"]
    assert [text for text in response.get("warnings", ()) if "reverts" in text] == list(findings)


@pytest.mark.parametrize(
    ("given", "leader", "replicas"),
    [
        ({**INSTALLED, "registration": "ca-bundle"}, True, False),
        ({**INSTALLED, "registration": "all"}, True, False),
        ({**INSTALLED, "controller": True}, True, False),
        ({**INSTALLED, "registration": "ca-bundle", "controller": False}, False, True),
        ({**INSTALLED, "controller": False}, False, True),
        ({**INSTALLED, "controller": False, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "kcp": True}, False, False),
        ({**INSTALLED, "controller": False, "kcp": True}, False, False),
        # A server without an address of its own writes nothing.
        (KUBECONFIG, False, False),
        ({**KUBECONFIG, "controller": False}, False, False),
        ({"manifests": Path()}, False, False),
    ],
)
def test_the_leader_keeps_the_selection_and_without_a_controller_each_replica_does(
    given: dict[str, Any], *, leader: bool, replicas: bool
) -> None:
    settings = Settings(**given).section(OverriderSettings)
    assert (settings.runs_selection, lists_without_leader(settings)) == (leader, replicas)
