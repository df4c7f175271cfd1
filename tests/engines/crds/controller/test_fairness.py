"""The whole controller beside hostile instances: an honest one is served while they still hold their slots.

Nothing here is timed. The hostile work never ends, so an honest instance that waited for it would wait for ever. Run
`pytest -s -k beside_8` for the seconds that an honest instance takes.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.controller.karmada_controller import RESERVED, WORKERS
from tests.engines.crds.controller import hostile
from tests.engines.crds.controller.crowd import Crowd
from tests.engines.crds.origin import Origin, serving, silent, tarball
from tests.engines.crds.tarballs import release
from tests.waiting import until

HOSTILES = 16
SERVED = "Downloaded"


@pytest.fixture
def origin() -> Iterator[Origin]:
    """An origin of an honest tarball, silent at all other paths."""
    with serving(silent, honest=tarball(release())) as running:
        yield running


@pytest.fixture
def hostiles(origin: Origin) -> None:
    for number in range(HOSTILES):
        made = hostile.tarballs()
        origin.paths[f"/{number}"] = tarball(made[number % len(made)])


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
