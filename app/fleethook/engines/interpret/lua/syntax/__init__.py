"""Reads and rewrites scripts of Lua 5.1, and finds code that other programs run differently."""
