"""The webhooks of each logical cluster, compiled when their configurations change."""
