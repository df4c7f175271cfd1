"""Log lines about errors that tenants can cause."""

import asyncio
import logging

import pytest

from fleethook.outbound.failure_log import FailureLog, log_loop_error


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_webhook_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FailureLog(clock=clock)
    for seconds in (0, 1, 59, 60, 61, 500):
        clock.now = seconds
        for name in ("a", "b"):
            log.note("ws2", name, f"webhook {name} breaks its connections: tls: bad record mac")
    lines = [record.getMessage() for record in caplog.records if "webhook a" in record.getMessage()]
    text = "webhook a breaks its connections: tls: bad record mac"
    assert lines == [text, f"{text} (2 more errors since the last line)", text]
    assert len(caplog.records) == 6


def test_each_owner_has_a_share_of_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FailureLog(clock=clock)
    for number in range(2_000):
        log.note("ws2", str(number), "EOF", cluster="ws2")
    assert [record.fields for record in caplog.records] == [{"cluster": "ws2"}] * 20  # type: ignore[attr-defined]
    for number in range(2_000):
        log.note(f"cluster {number}", "webhook", "EOF")
    assert len(caplog.records) == 1_000
    clock.now = 120
    log.note("ws2", "1999", "EOF")
    assert len(caplog.records) == 1_001


@pytest.mark.parametrize(
    ("context", "is_traced"),
    [
        ({"message": "Fatal error on SSL protocol", "exception": RuntimeError("closed"), "protocol": None}, False),
        ({"message": "Future exception was never retrieved", "exception": ConnectionResetError()}, False),
        ({"message": "Task exception was never retrieved", "exception": RuntimeError("a defect")}, True),
        ({"message": "Fatal error", "exception": KeyError("a defect"), "transport": None}, True),
    ],
)
async def test_only_defects_have_a_traceback(
    context: dict[str, object], caplog: pytest.LogCaptureFixture, *, is_traced: bool
) -> None:
    caplog.set_level(logging.INFO)
    log_loop_error(asyncio.get_running_loop(), context)
    assert bool(caplog.records) == is_traced
