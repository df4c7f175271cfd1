"""Tests of the limits of a tarball."""

import pytest

from fleethook.engines.crds.archive.archive_limits import ArchiveLimits, YAMLBudget
from fleethook.engines.crds.crds_errors import CRDsError, Exit


@pytest.mark.parametrize(("packed", "unpacked"), [(1, 100), (10, 100), (11, 110), (99, 500)])
def test_the_ratio_applies_to_files_above_a_size_and_below_the_limit(packed: int, unpacked: int) -> None:
    assert ArchiveLimits(unpacked_bytes=500, ratio=10, ratio_from_bytes=100).max_unpacked(packed) == unpacked


def test_the_files_of_a_tarball_share_a_budget() -> None:
    budget = YAMLBudget(ArchiveLimits(yaml_bytes=10, yaml_nodes=2))
    budget.take_bytes("a.yaml", 10)
    for _ in range(2):
        budget.take_node("a.yaml")
    for take, text in (
        (lambda: budget.take_bytes("b.yaml", 1), "b.yaml: .* more than 10 bytes together"),
        (lambda: budget.take_node("b.yaml"), "b.yaml: .* more than 2 nodes together"),
    ):
        with pytest.raises(CRDsError, match=text) as caught:
            take()
        assert caught.value.exit is Exit.LIMIT
