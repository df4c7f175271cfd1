"""Writes answered reviews to files."""
