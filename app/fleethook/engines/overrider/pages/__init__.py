"""The pages of the console about overriders."""
