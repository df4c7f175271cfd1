"""Converts objects to the version that a webhook takes."""
