"""Reads recordings of any size and any state."""
