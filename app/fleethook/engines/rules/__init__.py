"""Admission rules in Python: ``fleethook serve --rules FILE``."""
