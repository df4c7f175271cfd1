"""The commands about interpreters."""
