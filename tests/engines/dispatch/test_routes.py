"""The review routes of logical clusters and of webhook configurations."""

from typing import cast

from fleethook.cluster.registration import paths
from fleethook.engines.dispatch.review.dispatch_endpoint import DispatchContext
from fleethook.engines.dispatch.routes import dispatch_routes
from fleethook.model.admission import allowed
from tests.server.reviews.asking_routes import ask, review


async def test_observing_admits_what_no_other_route_would() -> None:
    routes = {route.path: route for route in dispatch_routes(cast("DispatchContext", None), lambda _: allowed())}
    for document in (None, "text", {"kind": 1}):
        response = await ask(routes[paths.OBSERVE], review(document, {"group": "a", "version": "b", "kind": "C"}))
        assert response == {"uid": "u-1", "allowed": True}
