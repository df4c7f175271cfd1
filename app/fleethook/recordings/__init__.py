"""Recordings of answered reviews: writing, reading and replaying them."""
