"""Traces: spans of reviews and of their calls. Only `app.tracing.otlp` needs OpenTelemetry, which is an extra."""
