"""The current span."""

import asyncio
import importlib.util
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from fleethook.tracing.spans import (
    CURRENT,
    Attributes,
    Kind,
    TracingError,
    UnsampledSpan,
    child_span,
    enter_span,
    find_trace_headers,
    find_trace_id,
    propagated_headers,
    start_child,
    start_tracing,
)
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
    with enter_span(UnsampledSpan([(b"traceparent", PARENT.encode())])):
        assert find_trace_id() == ""


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


PARENT = f"00-{'a' * 32}-{'b' * 16}-00"


def test_an_unsampled_span_passes_the_decision_on() -> None:
    received = [(b"host", b"x"), (b"traceparent", PARENT.encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    with enter_span(UnsampledSpan(received)), child_span("call") as span:
        assert isinstance(span, UnsampledSpan)
        assert propagated_headers() == {"traceparent": PARENT, "tracestate": "a=1,b=2"}


@pytest.mark.parametrize("value", ["", PARENT[:-1], PARENT.upper(), f"{PARENT}x", f"{PARENT}-\r\nx: y"])
def test_malformed_headers_are_not_passed_on(value: str) -> None:
    assert find_trace_headers([(b"traceparent", value.encode()), (b"tracestate", b"a=1")]) == {}


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
