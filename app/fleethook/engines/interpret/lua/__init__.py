"""Interpreters in Lua: runs Karmada's customizations in a sandbox with limits."""
