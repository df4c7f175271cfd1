"""Recorded reviews in the console: search, details, and asking them again."""
