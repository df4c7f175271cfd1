"""Calls to webhooks: TLS with the CA of their configuration, deadlines, size limits, quotas and circuit breakers."""
