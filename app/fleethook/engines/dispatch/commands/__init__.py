"""The commands about webhooks."""
