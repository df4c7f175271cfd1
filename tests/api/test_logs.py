from datetime import UTC, datetime

import pytest

from app.api.logs import Stamps


@pytest.mark.parametrize(
    "moment",
    ["2026-11-21T12:00:00.000", "2026-11-21T12:00:00.001", "2026-11-21T12:00:00.999", "2027-01-01T00:00:00.500"],
)
def test_the_time_is_in_utc_with_milliseconds(moment: str) -> None:
    seconds = datetime.fromisoformat(f"{moment}+00:00").timestamp()
    assert Stamps(lambda: seconds + 1e-6)() == f"{moment}+00:00"


def test_the_next_second_is_another_one() -> None:
    times = iter([1000.25, 1000.75, 1001.0, 1059.5, 1060.0, 999.0])
    stamps = Stamps(lambda: next(times))
    for second, millisecond in ((1000, 250), (1000, 750), (1001, 0), (1059, 500), (1060, 0), (999, 0)):
        wanted = datetime.fromtimestamp(second + millisecond / 1000, UTC).isoformat(timespec="milliseconds")
        assert stamps() == wanted
