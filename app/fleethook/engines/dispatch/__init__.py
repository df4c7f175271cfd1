"""Dispatches reviews to the webhooks of the logical cluster that owns an object's schema, as kcp's plugins do."""
