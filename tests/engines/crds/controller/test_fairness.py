"""The whole controller beside hostile instances: an honest one is served while they still hold their slots.

Nothing here is timed. The hostile work never ends, so an honest instance that waited for it would wait for ever. Run
`pytest -s -k beside_8` for the seconds that an honest instance takes.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.connection import Connection, RestConfig
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.apply.instance_server import Target
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller import applier as applier_module
from fleethook.engines.crds.controller.applier import Applier
from fleethook.engines.crds.controller.karmada_controller import RESERVED, WORKERS
from fleethook.engines.crds.controller.verifier import Verifier
from fleethook.engines.crds.fetch import fetch
from fleethook.engines.crds.tarball_source import Policy, Source
from fleethook.model.operator import KARMADA
from tests.engines.crds.apply import apiserver
from tests.engines.crds.controller import hostile
from tests.engines.crds.controller.crowd import Crowd
from tests.engines.crds.origin import Origin, says, serving, silent, tarball
from tests.engines.crds.tarballs import release
from tests.hook_server import tls
from tests.waiting import NET, until

HOSTILES = 16
SERVED = "Downloaded"


@pytest.fixture
def origin() -> Iterator[Origin]:
    """An origin of an honest tarball, silent at all other paths."""
    with serving(silent, honest=tarball(release())) as running:
        yield running


@pytest.fixture
def verifier() -> Iterator[Verifier]:
    made = Verifier()
    yield made
    made.close()


@pytest.fixture
def hostiles(origin: Origin) -> None:
    for number in range(HOSTILES):
        made = hostile.tarballs()
        origin.paths[f"/{number}"] = tarball(made[number % len(made)])


@pytest.mark.usefixtures("hostiles")
async def test_an_instance_is_served_beside_16_whose_verification_never_ends(origin: Origin, tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    crowd.controller._fetcher._verifier = verifier = Verifier(module="tests.engines.crds.controller.stuck")
    crowd.controller._verifier = verifier
    slots = verifier._slots
    async with crowd.working():
        for number in range(HOSTILES):
            crowd.add("hostile" if number % 2 else f"hostile-{number}", f"h{number}", f"{origin.base}/{number}")
        await until(lambda: slots.held_long > 0)
        crowd.add("honest", "last", f"{origin.base}/honest")
        await until(lambda: crowd.reason("honest", "last") == SERVED)
        assert slots.held_long == 1
        assert crowd.reasons() == {"Downloading": 12, "InvalidArchive": 4, SERVED: 1}


@pytest.mark.parametrize("namespaces", [1, 64])
async def test_an_instance_is_served_beside_crowds_whose_downloads_are_stuck(
    origin: Origin, tmp_path: Path, namespaces: int
) -> None:
    crowd = Crowd(tmp_path)
    async with crowd.working():
        for number in range(WORKERS + 1):
            crowd.add(f"crowd-{number % namespaces}", f"c{number}", f"{origin.base}/silent-{number}")
        most = max(WORKERS - RESERVED, namespaces)
        await until(lambda: len(origin.asked) == most)
        crowd.add("honest", "last", f"{origin.base}/honest")
        await until(lambda: crowd.reason("honest", "last") == SERVED)
        assert len(origin.asked) == most + 1
        assert len(crowd.seconds) == 1


async def test_crds_are_applied_beside_servers_that_stop_answering(
    origin: Origin, tmp_path: Path, verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, ca_pem = Cache(tmp_path), base64.b64decode(tls(tmp_path)[1])
    fetched = fetch(cache, Source(f"{origin.base}/honest"), Policy.IF_NOT_PRESENT, env_proxies=False)
    origin.paths["/version"] = says(b"{}")
    applier = Applier(None, cache, verifier)  # type: ignore[arg-type]  # the Secrets are read below

    with apiserver.serving() as (api, address):

        async def target(_: Any, karmada: Any, **__: Any) -> Target:
            server = address if karmada["metadata"]["namespace"] == "honest" else origin.base
            return Target(RestConfig(server, ssl.create_default_context()), ca_pem)

        monkeypatch.setattr(applier_module, "read_target", target)
        # On a slow machine, the requests that are stuck must not end before the honest instance is served.
        for limit in ("MAX_APPLY_SECONDS", "PROBE_SECONDS", "ESTABLISHED_SECONDS"):
            monkeypatch.setattr(applier_module, limit, NET)
        monkeypatch.setitem(Connection.request.__kwdefaults__, "timeout", NET)

        def applying(namespace: str) -> "asyncio.Task[Any]":
            karmada = {"metadata": {"namespace": namespace, "name": "demo"}}
            return asyncio.create_task(applier.apply(ObjectKey("", KARMADA, namespace, "demo"), karmada, fetched))

        stuck = [applying("crowd") for _ in range(HOSTILES)] + [applying(f"h{number}") for number in range(HOSTILES)]
        await until(
            lambda: (
                applier._slots.held_by_lane().get("crowd", 0)
                and all(f"h{number}" in applier._slots.held_by_lane() for number in range(HOSTILES))
            )
        )
        applied = await applying("honest")
        assert len(applied) == len(api.crds) == 19
        assert not any(task.done() for task in stuck)
        assert applier._slots.held_by_lane().get("crowd", 0) <= applier_module.AT_ONCE - applier_module.RESERVED
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


@pytest.mark.usefixtures("hostiles")
async def test_an_instance_that_comes_last_beside_8_hostile_ones(
    origin: Origin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints seconds; asserts the order only."""
    crowd = Crowd(tmp_path)
    async with crowd.working():
        for number in range(HOSTILES // 2):
            crowd.add(f"hostile-{number}", f"h{number}", f"{origin.base}/{number}")
        crowd.add("honest", "last", f"{origin.base}/honest")
        await until(lambda: crowd.reason("honest", "last") == SERVED)
        before = len(crowd.seconds) - 1
        await until(lambda: len(crowd.seconds) == HOSTILES // 2 + 1)
    with capsys.disabled():
        honest, last = crowd.seconds["honest", "last"], max(crowd.seconds.values())
        print(f"\nhonest {honest:.2f} s, last hostile {last:.2f} s, load {os.getloadavg()[0]:.1f}; {crowd.reasons()}")  # noqa: T201
    assert crowd.reasons() == {SERVED: 3, "InvalidArchive": 2, "LimitExceeded": 4}
    assert before <= HOSTILES // 4
