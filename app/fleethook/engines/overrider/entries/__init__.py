"""The entries of an overrider: the pools that they select, and their items and patches."""
