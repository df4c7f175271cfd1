"""Commands of admission rules in Python."""
