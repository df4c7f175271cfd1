"""The views of the overriders page: pure functions from the store to the values that templates show."""
