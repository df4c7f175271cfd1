"""An engine without contributions."""

from typing import Any, cast

from fleethook.app import create_app
from fleethook.server.engine_server import EngineServer, HealthOnly, Leadership
from fleethook.settings import Settings
from tests.asgi_client import call


async def test_an_engine_may_contribute_nothing() -> None:
    engine = EngineServer(create_app(Settings(), log=None).engines["crds"].context)
    assert (engine.leads, engine.selects) == (False, False)
    contributed = [engine.routes(), engine.checks(), engine.collectors(), engine.tasks(), engine.leader_collectors()]
    assert [list(one) for one in contributed] == [[]] * 5
    await engine.open()
    await engine.check_manifests([])
    await engine.lead(Leadership(cast("Any", None), lambda: b"", None))
    await engine.close()
    assert engine.queue_length() == 0


async def test_connections_beyond_the_limit_get_health_checks_and_are_closed() -> None:
    app = HealthOnly(create_app(Settings(), log=None))
    for path in ("/healthz", "/readyz", "/metrics"):
        answer = await call(app, path, method="GET")
        assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_connections_beyond_the_limit_get_nothing_else() -> None:
    answer = await call(HealthOnly(create_app(Settings(), log=None)), "/mutate-apps-v1-deployment", b"{}")
    assert (answer.status, answer.headers["connection"], answer.headers["retry-after"]) == (503, "close", "1")
    assert "max_connections" in answer.json()["message"]
