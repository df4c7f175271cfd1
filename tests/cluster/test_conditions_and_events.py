from datetime import UTC, datetime, timedelta

import pytest

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.conditions_and_events import (
    Condition,
    EventRecorder,
    ObjectReference,
    build_conditions,
    read_condition,
)
from tests.cluster.object_server import ObjectServer

FIRST = datetime(2026, 6, 1, tzinfo=UTC)
LATER = datetime(2026, 6, 2, tzinfo=UTC)


def test_the_transition_time_changes_only_with_the_status() -> None:
    bad = Condition("Rendered", "False", "NotRendered", "1 of 2 workloads")
    first = build_conditions([bad], former=None, generation=1, now=FIRST)
    assert first == [
        {
            "type": "Rendered", "status": "False", "reason": "NotRendered", "message": "1 of 2 workloads",
            "lastTransitionTime": "2026-06-01T00:00:00Z", "observedGeneration": 1,
        }
    ]  # fmt: skip
    worse = build_conditions([bad._replace(message="0 of 2 workloads")], former=first, generation=2, now=LATER)
    assert (worse[0]["lastTransitionTime"], worse[0]["message"]) == ("2026-06-01T00:00:00Z", "0 of 2 workloads")
    good = build_conditions([bad._replace(status="True", reason="AllRendered")], former=worse, generation=2, now=LATER)
    assert good[0]["lastTransitionTime"] == "2026-06-02T00:00:00Z"


def test_stored_conditions_of_any_shape_are_read() -> None:
    for former in (None, "x", [], ["x"], [{}], [{"type": 7}]):
        assert read_condition(former, "Rendered") == (None, None, None)
        assert build_conditions([Condition("Rendered", "True", "R", "m")], former=former, generation=1, now=FIRST)


def test_control_characters_of_messages_are_escaped() -> None:
    finding = Condition("Rendered", "False", "R", "entry \x1b[2Ja\u202eb\nReady: True")
    (made,) = build_conditions([finding], former=None, generation=1, now=FIRST)
    assert made["message"] == "entry \\x1b[2Ja\\u202eb\\nReady: True"


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ABOUT = ObjectReference("v1", "Thing", "ns", "demo", "uid-1")


def list_events(server: ObjectServer) -> list[tuple[str, str, int]]:
    return [(event["reason"], event["message"], event["count"]) for event in server.objects.values()]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def api() -> ObjectServer:
    return ObjectServer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(api: ObjectServer, clock: Clock) -> EventRecorder:
    return EventRecorder(api, component="fleethook", now=clock)  # type: ignore[arg-type]


async def test_an_event_names_its_object_and_reason(recorder: EventRecorder, api: ObjectServer) -> None:
    await recorder.record(ABOUT, "Normal", "Done", "it is done", scope="/clusters/a")
    (path, event), *others = api.objects.items()
    assert not others
    assert path.startswith("/clusters/a/api/v1/namespaces/ns/events/demo.")
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Thing", "namespace": "ns", "name": "demo", "uid": "uid-1",
    }  # fmt: skip
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Normal", "Done", "it is done", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-11-21T12:00:00Z"


async def test_a_repeated_event_is_counted(recorder: EventRecorder, api: ObjectServer, clock: Clock) -> None:
    for minute in range(3):
        clock.now = NOW + timedelta(minutes=minute)
        await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    ((_, event),) = api.objects.items()
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-11-21T12:00:00Z", "2026-11-21T12:02:00Z")


async def test_a_different_event_is_written_separately(recorder: EventRecorder, api: ObjectServer) -> None:
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    await recorder.record(ABOUT, "Warning", "Failed", "404")
    await recorder.record(ABOUT, "Normal", "Failed", "404")
    await recorder.record(ABOUT._replace(uid="uid-2"), "Warning", "Failed", "404")
    await recorder.record(ABOUT, "Warning", "Failed", "404", scope="/clusters/a")
    assert [count for _, _, count in list_events(api)] == [1] * 5


async def test_an_expired_event_is_written_again(recorder: EventRecorder, api: ObjectServer) -> None:
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    api.objects.clear()
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert list_events(api) == [("Failed", "no answer", 2)]


async def test_a_failed_write_is_logged_and_not_retried(
    recorder: EventRecorder, api: ObjectServer, caplog: pytest.LogCaptureFixture
) -> None:
    api.error = UnreachableError("refused")
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert "cannot write event Failed about Thing ns/demo: refused" in caplog.text
    api.error = None
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert list_events(api) == [("Failed", "no answer", 1)]


async def test_long_messages_are_cut(recorder: EventRecorder, api: ObjectServer) -> None:
    await recorder.record(ABOUT, "Normal", "Done", "x" * 5000)
    ((_, text, _),) = list_events(api)
    assert len(text) == 1024
    assert text.endswith("...")


async def test_remembered_events_are_limited(recorder: EventRecorder, api: ObjectServer) -> None:
    for number in range(5000):
        await recorder.record(ABOUT, "Normal", "Done", str(number))
    await recorder.record(ABOUT, "Normal", "Done", "0")
    await recorder.record(ABOUT, "Normal", "Done", "4999")
    counts = {text: count for _, text, count in list_events(api)}
    assert (len(api.objects), counts["0"], counts["4999"]) == (5001, 1, 2)


async def test_control_characters_of_events_are_escaped(recorder: EventRecorder, api: ObjectServer) -> None:
    await recorder.record(ABOUT, "Warning", "Odd", "\x1b[2J\u2028" + "x" * 2000)
    ((_, message, _),) = list_events(api)
    assert message.startswith("\\x1b[2J\\u2028x")
    assert len(message) == 1024
