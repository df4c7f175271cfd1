import pytest

from fleethook.cluster.stale_objects import STALE_SECONDS, PartState


@pytest.mark.parametrize(
    ("age", "expected"), [(None, False), (0.0, False), (STALE_SECONDS, False), (STALE_SECONDS + 1, True)]
)
def test_a_part_is_stale_if_it_was_read_and_the_apiserver_is_silent(age: float | None, *, expected: bool) -> None:
    assert PartState("pods", synced=True, detail="", age=age, failing=False).is_stale is expected
