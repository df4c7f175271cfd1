"""Admission rules in Python: ``fleethook serve --hooks FILE``."""
