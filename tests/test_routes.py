"""The table of routes: kinds that answers depend on, and the handlers behind the routes of overriders."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from fleethook.cluster.registration import paths
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.review.dispatch_endpoint import DispatchContext
from fleethook.engines.interpret.chain import Chain
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT
from fleethook.model.admission import allowed
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.routes import ReviewRoute, crds_routes, dispatch_routes, interpret_routes, overrider_routes
from fleethook.server.logs.logs import LogSink
from fleethook.server.metrics.metrics import Metrics
from fleethook.server.reviews.endpoint import MAX_ON_LOOP
from fleethook.server.reviews.reply import Reply
from tests.builders import entry, image, overrider, workload, yurt_app_set

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
OVERRIDER = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppOverrider"}


def routes_of(store: Store, plans: PlanCache | None = None, **given: Any) -> dict[str, ReviewRoute]:
    made = overrider_routes(store, plans or PlanCache(), None, unfit_subject_edits="warn", **given)
    return {route.path: route for route in made}


def make(route: ReviewRoute, log: LogSink | None = None) -> Any:
    """Return the endpoint of a route, as the application makes it."""
    return route.make(
        route.path, metrics=Metrics(), body_limit=1 << 20, log=log, known_clients_only=False, worker=OnLoop(),
        bodies=None, record=None, trace=None,
    )  # fmt: skip


class OnLoop:
    """Runs work at once."""

    async def run(self, _turn: str, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def review(document: Any, kind: dict[str, str] = DEPLOYMENT) -> bytes:
    request = {"uid": "u-1", "operation": "CREATE", "namespace": "default", "kind": kind, "object": document}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def begin(route: ReviewRoute, body: bytes) -> Any:
    return make(route).answer({"path": route.path, "query_string": b"", "headers": []}, body)


async def ask(route: ReviewRoute, body: bytes) -> dict[str, Any]:
    begun = begin(route, body)
    reply = begun if isinstance(begun, Reply) else await begun
    return dict(json.loads(reply.body)["response"])


@pytest.fixture
def store() -> Store:
    made = Store([OVERRIDERS_BY_SUBJECT])
    for document in (yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:2.0")]))):
        made.put(document)
    return made


def test_the_routes_of_overriders_have_unique_paths_and_name_their_kinds(store: Store) -> None:
    routes = routes_of(store)
    assert len(routes) == len(overrider_routes(store, PlanCache(), None, unfit_subject_edits="warn")) == 7
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


async def test_the_routes_of_interpreters_answer_their_reviews(store: Store) -> None:
    del store
    routes = {route.path: route for route in interpret_routes(Chain([]), lambda _: iter(()) or allowed())}  # type: ignore[arg-type,return-value]
    assert {path for path, route in routes.items() if not route.needs} == {
        paths.VALIDATE_HOOKS, paths.VALIDATE_CONFIG_MAP, paths.EXPLORE_FOO, paths.EXPLORE_BAR,
    }  # fmt: skip
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {"uid": "u-1", "operation": "InterpretHealth", "kind": kind, "object": workload()}
    body = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    response = await ask(routes[paths.INTERPRET], json.dumps(body).encode())
    assert (response["uid"], response["successful"]) == ("u-1", False)


async def test_the_routes_of_instances_set_defaults_and_validate() -> None:
    routes = {route.path: route for route in crds_routes()}
    assert set(routes) == {paths.MUTATE_KARMADA, paths.VALIDATE_KARMADA}
    kind = {"group": "operator.karmada.io", "version": "v1alpha1", "kind": "Karmada"}
    instance = {"apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "a"}, "spec": {}}
    wrong = {**instance, "spec": {"crdTarball": {"httpSource": {"url": "ftp://a"}}}}
    assert (await ask(routes[paths.MUTATE_KARMADA], review(instance, kind)))["allowed"]
    assert not (await ask(routes[paths.VALIDATE_KARMADA], review(wrong, kind)))["allowed"]


async def test_observing_admits_what_no_other_route_would(store: Store) -> None:
    routes = {route.path: route for route in dispatch_routes(cast("DispatchContext", None), lambda _: allowed())}
    for document in (None, "text", {"kind": 1}):
        response = await ask(routes[paths.OBSERVE], review(document, {"group": "a", "version": "b", "kind": "C"}))
        assert response == {"uid": "u-1", "allowed": True}
