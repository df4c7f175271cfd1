"""Traces: spans of reviews and of their calls. Only `fleethook.tracing.otlp` needs OpenTelemetry, which is an extra."""
