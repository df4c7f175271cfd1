"""The routes of overriders, and their answers."""

from collections.abc import Sequence
from typing import Any

import pytest

from fleethook.cluster.registration import paths
from fleethook.cluster.store import Store
from fleethook.engines.overrider.overrider_routes import overrider_routes
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_and_overrider import OVERRIDERS_BY_SUBJECT
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.server.reviews.http_endpoint import MAX_ON_LOOP
from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.server.reviews.asking_routes import ask, begin, review

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
