"""Calls webhooks, and merges their answers."""
