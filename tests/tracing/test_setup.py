"""The decision about exporting traces."""

import importlib.util
import logging
from typing import Any

import pytest

from fleethook.tracing.setup import TracingError, start_tracing
from tests.tracing.collector import collecting

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
