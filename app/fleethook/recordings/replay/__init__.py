"""Asks recorded reviews again, and compares the outcomes."""
