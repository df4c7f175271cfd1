from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.control.events import Recorder, Reference
from app.kube.connection import MERGE_PATCH
from app.kube.errors import APIError, UnreachableError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ABOUT = Reference("v1", "Thing", "ns", "demo", "uid-1")


class Api:
    """An apiserver that stores the events of a recorder."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.refusal: Exception | None = None
        self.creates_only = False

    async def request(self, method: str, path: str, *, body: dict[str, Any], content_type: str = "") -> bytes:
        if self.refusal is not None:
            raise self.refusal
        if method == "POST":
            if f"{path}/{body['metadata']['name']}" in self.events:
                raise APIError(409, "AlreadyExists", f'events "{body["metadata"]["name"]}" already exists')
            self.events[f"{path}/{body['metadata']['name']}"] = dict(body)
        else:
            assert (method, content_type) == ("PATCH", MERGE_PATCH)
            if self.creates_only:
                raise APIError(403, "Forbidden", "cannot patch events")
            if path not in self.events:
                raise APIError(404, "NotFound", "expired")
            self.events[path].update(body)
        return b"{}"

    def said(self) -> list[tuple[str, str, int]]:
        return [(event["reason"], event["message"], event["count"]) for event in self.events.values()]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(api: Api, clock: Clock) -> Recorder:
    return Recorder(api, component="fleethook", now=clock)  # type: ignore[arg-type]


async def test_an_event_names_its_object_and_reason(recorder: Recorder, api: Api) -> None:
    await recorder.record(ABOUT, "Normal", "Done", "it is done", scope="/clusters/a")
    (path, event), *others = api.events.items()
    assert not others
    assert path.startswith("/clusters/a/api/v1/namespaces/ns/events/demo.")
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Thing", "namespace": "ns", "name": "demo", "uid": "uid-1",
    }  # fmt: skip
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Normal", "Done", "it is done", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-11-21T12:00:00Z"


async def test_a_repeated_event_is_counted(recorder: Recorder, api: Api, clock: Clock) -> None:
    for minute in range(3):
        clock.now = NOW + timedelta(minutes=minute)
        await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    ((_, event),) = api.events.items()
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-11-21T12:00:00Z", "2026-11-21T12:02:00Z")


async def test_a_different_event_is_written_separately(recorder: Recorder, api: Api) -> None:
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    await recorder.record(ABOUT, "Warning", "Failed", "404")
    await recorder.record(ABOUT, "Normal", "Failed", "404")
    await recorder.record(ABOUT._replace(uid="uid-2"), "Warning", "Failed", "404")
    await recorder.record(ABOUT, "Warning", "Failed", "404", scope="/clusters/a")
    assert [count for _, _, count in api.said()] == [1] * 5


async def test_an_expired_event_is_written_again(recorder: Recorder, api: Api) -> None:
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    api.events.clear()
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert api.said() == [("Failed", "no answer", 2)]


async def test_without_the_right_to_patch_each_event_is_created(recorder: Recorder, api: Api) -> None:
    api.creates_only = True
    for _ in range(3):
        await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert api.said() == [("Failed", "no answer", 1)] * 3


async def test_a_failed_write_is_logged_and_not_retried(
    recorder: Recorder, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    api.refusal = UnreachableError("refused")
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert "cannot write event Failed about Thing ns/demo: refused" in caplog.text
    api.refusal = None
    await recorder.record(ABOUT, "Warning", "Failed", "no answer")
    assert api.said() == [("Failed", "no answer", 1)]


async def test_long_messages_are_cut(recorder: Recorder, api: Api) -> None:
    await recorder.record(ABOUT, "Normal", "Done", "x" * 5000)
    ((_, text, _),) = api.said()
    assert len(text) == 1024
    assert text.endswith("...")


async def test_remembered_events_are_limited(recorder: Recorder, api: Api) -> None:
    for number in range(5000):
        await recorder.record(ABOUT, "Normal", "Done", str(number))
    await recorder.record(ABOUT, "Normal", "Done", "0")
    await recorder.record(ABOUT, "Normal", "Done", "4999")
    counts = {text: count for _, text, count in api.said()}
    assert (len(api.events), counts["0"], counts["4999"]) == (5001, 1, 2)


async def test_control_characters_of_messages_are_escaped(recorder: Recorder, api: Api) -> None:
    await recorder.record(ABOUT, "Warning", "Odd", "\x1b[2J\u2028" + "x" * 2000)
    ((_, message, _),) = api.said()
    assert message.startswith("\\x1b[2J\\u2028x")
    assert len(message) == 1024
