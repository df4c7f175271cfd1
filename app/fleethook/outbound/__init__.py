"""Calls to webhooks: TLS with the CA of their configuration, deadlines, size limits and quotas."""
