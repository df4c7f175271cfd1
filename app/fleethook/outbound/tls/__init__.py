"""TLS of calls to webhooks: certificates as Go reads and verifies them, trust and credentials."""
