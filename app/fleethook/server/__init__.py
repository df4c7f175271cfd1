"""Serves reviews over HTTP: protocol and limits, the edge of reviews, metrics, logs, health. It knows no engine."""
