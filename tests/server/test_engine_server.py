"""An engine without contributions."""

from typing import Any, cast

from fleethook.app import create_app
from fleethook.server.engine_server import EngineServer, Leadership
from fleethook.settings import Settings


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
