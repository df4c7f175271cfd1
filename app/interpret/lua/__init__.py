"""Interpreters in Lua: customizations that people already have, run in a sandbox that holds."""
