"""Tests of the time that fleethook gives a subject's controller before it nudges it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleethook.engines.overrider.openyurt.owner_waits import OwnerWaits, Patience, nudged_lately
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.model.openyurt import NUDGED_ANNOTATION, YURT_APP_SET
from tests.builders import yurt_app_set

SET = Binding("", YURT_APP_SET, "default", "demo")
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Clock:
    """A clock that a test sets, and the waits that read it: 10 s, and 600 s between nudges."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits = OwnerWaits(seconds=10.0, interval=600.0, time=lambda: self.now)

    def should_nudge(self, at: float) -> bool:
        self.now = at
        return self.waits.should_nudge(SET, pools=0)


def test_a_controller_gets_a_twentieth_of_a_second_for_each_pool() -> None:
    clock = Clock()
    assert clock.waits.limit(0) == 10.0
    assert clock.waits.limit(200) == 20.0


def test_the_time_starts_again_when_the_spec_of_the_subject_changes() -> None:
    clock = Clock()
    assert clock.waits.patience(SET, pools=0, observed=False) == Patience(wait=True, observed=False)
    clock.now = 10.0
    assert not clock.waits.patience(SET, pools=0, observed=True).wait
    clock.waits.restart(SET)
    assert clock.waits.patience(SET, pools=0, observed=True).wait
    assert clock.waits.until(SET, pools=0) == 20.0


def test_the_wait_ends_when_no_workload_waits_any_more() -> None:
    clock = Clock()
    clock.waits.note(SET, waiting=True, behind=False, missing=False)
    assert clock.waits.patience(SET, pools=0, observed=True).wait
    assert clock.waits.waited(SET)
    clock.waits.note(SET, waiting=False, behind=False, missing=False)
    assert not clock.waits.patience(SET, pools=0, observed=True).wait
    assert not clock.waits.waited(SET)


def test_a_late_controller_is_nudged_with_doubled_pauses() -> None:
    clock = Clock()
    clock.waits.note(SET, waiting=False, behind=True, missing=False)
    assert not clock.should_nudge(9.0)
    assert clock.should_nudge(10.0)
    clock.waits.nudged(SET, well=True)
    assert clock.waits.until(SET, pools=0) == 20.0
    assert clock.waits.first_limit(SET, pools=0) == 10.0
    assert not clock.should_nudge(609.0)
    assert clock.should_nudge(610.0)
    clock.waits.nudged(SET, well=False)
    assert not clock.should_nudge(1809.0)
    assert clock.should_nudge(1810.0)


def test_a_controller_that_has_written_everything_is_not_nudged() -> None:
    clock = Clock()
    clock.waits.note(SET, waiting=False, behind=False, missing=True)
    assert clock.waits.trouble(SET, pools=0) == 10.0
    clock.waits.note(SET, waiting=False, behind=False, missing=False)
    assert clock.waits.trouble(SET, pools=0) is None
    assert not clock.should_nudge(1000.0)


def test_a_missing_workload_counts_from_the_time_when_it_was_first_missing() -> None:
    clock = Clock()
    clock.now = 100.0
    clock.waits.note(SET, waiting=False, behind=False, missing=True)
    clock.now = 105.0
    clock.waits.note(SET, waiting=False, behind=False, missing=True)
    assert clock.waits.trouble(SET, pools=0) == 110.0


def test_subjects_that_are_gone_are_forgotten() -> None:
    clock = Clock()
    clock.waits.restart(SET)
    clock.waits.keep({SET})
    assert len(clock.waits) == 1
    clock.waits.keep(set())
    assert len(clock.waits) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ((NOW - timedelta(seconds=599)).isoformat(), True),
        ((NOW - timedelta(seconds=600)).isoformat(), False),
        ("2026-06-01T00:00:00Z", True),
        ("2026-06-01T00:00:00", False),
        ("yesterday", False),
        (7, False),
        (None, False),
    ],
)
def test_the_annotation_of_another_leader_prevents_a_nudge(text: Any, *, expected: bool) -> None:
    subject = yurt_app_set()
    subject["metadata"]["annotations"] = {NUDGED_ANNOTATION: text}
    assert nudged_lately(subject, now=NOW, seconds=600.0) is expected
