"""Calling somebody's webhook: TLS from the bytes of its authority, a deadline, a cap, a circuit breaker."""
