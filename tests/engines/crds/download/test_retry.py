import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.crds.crds_errors import Exit
from fleethook.engines.crds.download.retry import ATTEMPTS, AttemptError, choose_delay, parse_retry_after

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def failed(**rest: object) -> AttemptError:
    return AttemptError(Exit.NETWORK, "reset", **{"again": True, **rest})  # type: ignore[arg-type]


@given(st.integers(1, ATTEMPTS - 1), st.integers())
def test_the_wait_has_full_jitter_below_a_bound_that_doubles(attempt: int, seed: int) -> None:
    delay = choose_delay(failed(), attempt, random.Random(seed).uniform)
    assert delay is not None
    assert 0 <= delay <= min(30, 2 ** (attempt - 1))


def test_four_attempts_are_all() -> None:
    assert [choose_delay(failed(), attempt, max) for attempt in (1, 2, 3, 4)] == [1, 2, 4, None]


def test_permanent_errors_are_not_retried() -> None:
    assert choose_delay(failed(again=False), 1, max) is None


@pytest.mark.parametrize(("after", "delay"), [(0.0, 0.0), (7.0, 7.0), (120.0, 120.0), (121.0, None)])
def test_retry_after_is_believed_up_to_two_minutes(after: float, delay: float | None) -> None:
    assert choose_delay(failed(after=after), 1, max) == delay


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("17", 17),
        ("99999999999999999999", 999999999),
        ("Thu, 01 Jan 2026 12:01:30 GMT", 90),
        ("Thu, 01 Jan 2026 14:01:30 +0200", 90),
        ("Thu, 01 Jan 2026 12:01:30 -0000", 90),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("-1", None),
        ("1.5", None),
        ("\u0661", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert parse_retry_after({"Retry-After": value}, NOW) == seconds


@given(st.text())
def test_a_malformed_retry_after_is_ignored(value: str) -> None:
    found = parse_retry_after({"Retry-After": value}, NOW)
    assert found is None or found >= 0
