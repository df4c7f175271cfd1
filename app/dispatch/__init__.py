"""Dispatching reviews to the webhooks of the logical cluster that owns an object's schema (seed 002)."""
