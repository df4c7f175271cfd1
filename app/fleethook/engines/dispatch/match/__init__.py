"""Decides which webhooks a request is sent to."""
