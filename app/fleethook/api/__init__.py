"""The HTTP edge: bytes in, bytes out. It knows envelopes, limits and metrics, and nothing of any policy."""
