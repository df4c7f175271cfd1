"""The commands about overriders."""
