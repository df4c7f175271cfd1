"""The pages of the console for admission rules in Python."""
