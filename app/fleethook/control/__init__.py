"""Shared parts of controllers: work queue, rate limit, conditions, events, and long work beside requests."""
