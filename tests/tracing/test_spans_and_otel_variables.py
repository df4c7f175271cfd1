"""The current span."""

import asyncio
import importlib.util
import logging
from collections.abc import Mapping
from types import CoroutineType
from typing import Any

import pytest

from fleethook.tracing.spans_and_otel_variables import (
    CURRENT,
    Attributes,
    Kind,
    TracingError,
    begin_in_span,
    child_span,
    enter_span,
    find_trace_id,
    propagated_headers,
    start_child,
    start_tracing,
)
from fleethook.work.threads_and_gc import Work, begin
from tests.tracing.collector import collecting


class Noted:
    """A span that notes its end and its children."""

    def __init__(self, name: str = "root") -> None:
        self.name = name
        self.children: list[Noted] = []
        self.ends: list[str] = []
        self.attributes: dict[str, object] = {}

    @property
    def headers(self) -> Mapping[str, str]:
        return {"traceparent": self.name}

    @property
    def trace_id(self) -> str:
        return f"trace of {self.name}"

    def start(self, name: str, kind: Kind, attributes: Attributes) -> "Noted":
        del kind
        child = Noted(name)
        child.note(attributes)
        self.children.append(child)
        return child

    def note(self, attributes: Attributes) -> None:
        self.attributes.update(attributes)

    def end(self, error: str = "") -> None:
        self.ends.append(error)


def test_the_id_of_the_current_trace_is_that_of_its_span() -> None:
    assert find_trace_id() == ""
    with enter_span(Noted("review")):
        assert find_trace_id() == "trace of review"


def test_without_a_current_span_nothing_is_traced() -> None:
    assert start_child("call") is None
    assert propagated_headers() == {}
    with child_span("call") as span:
        assert span is None
        assert CURRENT.get() is None


def test_children_nest_and_end() -> None:
    root = Noted()
    with enter_span(root):
        with child_span("outer", attributes={"a": 1}):
            assert propagated_headers() == {"traceparent": "outer"}
            with child_span("inner"):
                pass
        assert CURRENT.get() is root
    assert CURRENT.get() is None
    (outer,) = root.children
    assert [child.name for child in outer.children] == ["inner"]
    assert (outer.attributes, outer.ends, root.ends) == ({"a": 1}, [""], [""])


def test_a_failure_ends_the_span_as_failed() -> None:
    root = Noted()
    with pytest.raises(ValueError, match="no"), enter_span(root):
        raise ValueError("no")
    assert root.ends == ["no"]
    cancelled = Noted()
    with pytest.raises(asyncio.CancelledError), enter_span(cancelled):
        raise asyncio.CancelledError
    assert cancelled.ends == ["CancelledError"]


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def find_other(name: str, *rest: Any) -> Any:
        return None if name.startswith("opentelemetry") else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_other)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: "http://c", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_no_traces_are_exported_without_an_endpoint_or_if_switched_off(environment: dict[str, str]) -> None:
    assert start_tracing(None, environment) is None


@pytest.mark.usefixtures("not_installed")
def test_a_given_endpoint_needs_the_packages() -> None:
    with pytest.raises(TracingError, match=r"^--otlp-endpoint: .*install fleethook\[otel\]$"):
        start_tracing("http://127.0.0.1:1", {})


@pytest.mark.usefixtures("not_installed")
def test_an_endpoint_of_the_environment_only_causes_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert start_tracing(None, {ENDPOINT: "http://127.0.0.1:1"}) is None
    assert "no traces are exported to http://127.0.0.1:1" in caplog.text


def test_another_protocol_causes_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), collecting() as collector:
        tracing = start_tracing(collector.url, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
        assert tracing is not None
        tracing.close()
    assert "traces are exported with http/protobuf: grpc is not supported" in caplog.text


async def current_name(*, pauses: bool) -> str:
    if pauses:
        await asyncio.sleep(0)
    span = CURRENT.get()
    return "" if span is None else span.headers["traceparent"]


def read_current() -> str:
    span = CURRENT.get()
    return "" if span is None else span.headers["traceparent"]


def do_in_span(awaits: int, seen: list[str]) -> Work[str]:
    seen.append(read_current())
    for number in range(awaits):
        seen.append((yield current_name(pauses=bool(number % 2))))
        seen.append(read_current())
    return "done"


def test_work_that_waits_for_nothing_ends_at_once() -> None:
    span, seen = Noted(), list[str]()
    begun = begin_in_span(span, lambda: begin(do_in_span(0, seen)))
    assert begun == "done"
    assert (seen, span.ends, CURRENT.get()) == (["root"], [""], None)


async def test_the_span_is_current_in_every_step_and_wait_and_nowhere_else() -> None:
    span, seen = Noted(), list[str]()
    begun = begin_in_span(span, lambda: begin(do_in_span(3, seen)))
    assert isinstance(begun, CoroutineType)
    assert CURRENT.get() is None
    # The rest runs in a task of its own, as in the server.
    task = asyncio.create_task(begun)
    other = asyncio.create_task(current_name(pauses=True))
    assert await task == "done"
    assert await other == ""
    assert seen == ["root"] * 7
    assert span.ends == [""]


async def test_the_work_handles_a_failure_where_it_waits() -> None:
    async def fail() -> None:
        raise ValueError("no")

    def handled() -> Work[str]:
        try:
            yield fail()
        except ValueError as error:
            return f"{error} in {read_current()}"
        return "not raised"

    begun = begin_in_span(Noted(), lambda: begin(handled()))
    assert isinstance(begun, CoroutineType)
    assert await begun == "no in root"


def test_a_failure_ends_the_span() -> None:
    def fail() -> str:
        raise ValueError("broken")

    span = Noted()
    with pytest.raises(ValueError, match="broken"):
        begin_in_span(span, fail)
    assert span.ends == ["broken"]
    assert CURRENT.get() is None


async def test_a_cancellation_ends_the_span_and_the_work() -> None:
    started, closed = asyncio.Event(), list[str]()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    def waits() -> Work[str]:
        try:
            yield hang()
        finally:
            closed.append(read_current())
        return ""

    span = Noted()
    begun = begin_in_span(span, lambda: begin(waits()))
    assert isinstance(begun, CoroutineType)
    task = asyncio.create_task(begun)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(closed) == 1
    assert len(span.ends) == 1
