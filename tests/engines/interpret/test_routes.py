"""The review routes of interpreters: questions of Karmada, and admission of interpreters."""

import json

from fleethook.cluster.registration import paths
from fleethook.engines.interpret.chain import Chain
from fleethook.engines.interpret.routes import interpret_routes
from fleethook.model.admission import allowed
from tests.builders import workload
from tests.server.reviews.asking_routes import ask


async def test_the_routes_of_interpreters_answer_their_reviews() -> None:
    routes = {route.path: route for route in interpret_routes(Chain([]), lambda _: iter(()) or allowed())}  # type: ignore[arg-type,return-value]
    assert {path for path, route in routes.items() if not route.needs} == {
        paths.VALIDATE_HOOKS, paths.VALIDATE_CONFIG_MAP, paths.EXPLORE_FOO, paths.EXPLORE_BAR,
    }  # fmt: skip
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {"uid": "u-1", "operation": "InterpretHealth", "kind": kind, "object": workload()}
    body = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    response = await ask(routes[paths.INTERPRET], json.dumps(body).encode())
    assert (response["uid"], response["successful"]) == ("u-1", False)
