"""The pages of the console about interpreters."""
