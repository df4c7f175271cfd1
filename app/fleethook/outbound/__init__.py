"""Calls to webhooks: TLS with the CA of their configuration, deadlines, limits of sizes and calls."""
