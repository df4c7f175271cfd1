"""The whole controller beside hostile instances: an honest one is served while they still hold their slots.

Nothing here is timed. Stuck downloads never end, so an honest instance that waited for them would wait for ever.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.controller.karmada_controller import WORKERS
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


@pytest.mark.parametrize(("namespaces", "most"), [(1, WORKERS // 2), (64, WORKERS - 3)])
async def test_an_instance_is_served_beside_crowds_whose_downloads_are_stuck(
    origin: Origin, tmp_path: Path, namespaces: int, most: int
) -> None:
    crowd = Crowd(tmp_path)
    async with crowd.working():
        for number in range(WORKERS + 1):
            crowd.add(f"crowd-{number % namespaces}", f"c{number}", f"{origin.base}/silent-{number}")
        await until(lambda: len(origin.asked) == most)
        crowd.add("honest", "last", f"{origin.base}/honest")
        await until(lambda: crowd.reason("honest", "last") == SERVED)
        assert len(origin.asked) == most + 1
        assert len(crowd.seconds) == 1


@pytest.mark.usefixtures("hostiles")
async def test_a_namespace_with_8_hostile_tarballs_takes_turns_with_others(origin: Origin, tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    async with crowd.working():
        for number in range(HOSTILES // 2):
            crowd.add("crowd", f"h{number}", f"{origin.base}/{number}")
        crowd.add("honest", "last", f"{origin.base}/honest")
        await until(lambda: crowd.reason("honest", "last") == SERVED)
        before = len(crowd.seconds) - 1
        await until(lambda: len(crowd.seconds) == HOSTILES // 2 + 1)
    assert crowd.reasons() == {SERVED: 3, "InvalidArchive": 2, "LimitExceeded": 4}
    # Its slots hold two tarballs at most, and then it is the other namespace's turn.
    assert before <= HOSTILES // 4
