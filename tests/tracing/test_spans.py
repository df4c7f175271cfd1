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
    child_span,
    enter_span,
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
